"""What a job may say of itself: the limits of the command line, files of jobs, `neaptide.attach` and the protocol."""

from __future__ import annotations

from neaptide.core.units import format_bytes

NAME_LETTERS = 40  # a table shows no more
NAME_BYTES = 63  # the board keeps no more
MOST_ITERATIONS = 2**32 - 1
LEAST_PRIORITY, MOST_PRIORITY = -(2**31), 2**31 - 1
MOST_DEADLINE_SECONDS = 10**6
MOST_MEMORY_BYTES = 2**50
MOST_BUDGET_BYTES = 2**48 - 1  # the board counts no more
LEAST_QUANTILE, MOST_QUANTILE = 0.5, 0.9999


def checked_name(name: str) -> str:
    """The name, if tables, logs and file names can show it; else ValueError."""
    if not name.isprintable() or not name.strip() or "/" in name or name.startswith((".", "-", " ")):
        raise ValueError(
            f"{name!r} is no name for a job: printable letters without a slash, and no dot, dash or space first"
        )
    if len(name) > NAME_LETTERS:
        raise ValueError(f"the name {name!r} has {len(name)} letters; at most {NAME_LETTERS} are shown")
    if len(name.encode()) > NAME_BYTES:
        raise ValueError(f"the name {name!r} has {len(name.encode())} bytes; at most {NAME_BYTES} are kept")
    return name


def usable_name(text: str) -> str:
    """A name for a job that was given none, made of what a file or a program is called."""
    letters = "".join(letter if letter.isprintable() and letter != "/" else "_" for letter in text)[:NAME_LETTERS]
    return letters.encode()[:NAME_BYTES].decode(errors="ignore").lstrip(".-").strip() or "job"


def numbered_name(name: str, number: int) -> str:
    """The name of the second, third, ... job that is called so."""
    end = f"-{number}"
    cut = name[: NAME_LETTERS - len(end)].encode()[: NAME_BYTES - len(end)].decode(errors="ignore")
    return cut + end


def check_iterations(iterations: int | None) -> None:
    """ValueError when a job cannot have so many; None: it is not known."""
    if iterations is not None and not 1 <= iterations <= MOST_ITERATIONS:
        raise ValueError(f"iterations must be between 1 and {MOST_ITERATIONS}, not {iterations}")


def check_priority(priority: int) -> None:
    """ValueError when a job cannot have it."""
    if not LEAST_PRIORITY <= priority <= MOST_PRIORITY:
        raise ValueError(f"the priority must be between {LEAST_PRIORITY} and {MOST_PRIORITY}, not {priority}")


def check_deadline(seconds: float | None) -> None:
    """ValueError when a batch cannot have it; None: it has none."""
    if seconds is not None and not 0 < seconds <= MOST_DEADLINE_SECONDS:
        raise ValueError(
            f"the time for a batch must be positive and at most {MOST_DEADLINE_SECONDS} s, not {seconds:g} s"
        )


def check_quantile(quantile: float) -> None:
    """ValueError when a job cannot ask for so many of its deadlines to be kept."""
    if not LEAST_QUANTILE <= quantile <= MOST_QUANTILE:
        raise ValueError(
            f"the share of deadlines to keep must be between {LEAST_QUANTILE} and {MOST_QUANTILE}, not {quantile:g}"
        )


def check_serving(inference: bool, deadline: bool, quantile: bool, latency_critical: bool) -> None:
    """ValueError when what was given of a job's requests does not go together."""
    if latency_critical and not inference:
        raise ValueError("a training job cannot be latency-critical; its kind must be inference")
    if deadline and not inference:
        raise ValueError("a training job has no requests, so it cannot have an slo; its kind must be inference")
    if quantile and not deadline:
        raise ValueError("a share of deadlines to keep needs a deadline: give an slo, such as 300ms")


def check_memory(memory_bytes: int | None) -> None:
    """ValueError when a job cannot be expected to hold so much; None: it is not known."""
    if memory_bytes is not None and not 1 <= memory_bytes <= MOST_MEMORY_BYTES:
        raise ValueError(f"the memory of a job must be between 1 byte and 1 PiB, not {memory_bytes} bytes")


def check_budget(budget_bytes: int, chunk_bytes: int) -> None:
    """ValueError when all jobs together cannot have this budget on a device that leases chunks of this size."""
    if budget_bytes < chunk_bytes:
        wanted, least = format_bytes(budget_bytes), format_bytes(chunk_bytes)
        raise ValueError(f"a budget of {wanted} is too small; at least {least} is needed")
    if budget_bytes > MOST_BUDGET_BYTES:
        wanted, most = format_bytes(budget_bytes), format_bytes(MOST_BUDGET_BYTES)
        raise ValueError(f"a budget of {wanted} is too large; at most {most} can be counted")
