"""`neaptide doctor`: what this machine has for sharing a device, and what to do about what is missing."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

FAILED = 1


def doctor(*, json: Annotated[bool, Parameter(help="Print one JSON array instead.")] = False) -> int:
    """Show one line for each thing that sharing needs; exit code 1 when something keeps it from working."""
    import msgspec

    from neaptide.core.text import printable
    from neaptide.devices.checkup import Grade, examine

    findings = examine()
    if json:
        print(msgspec.json.encode(findings).decode())
    else:
        width = max(len(each.subject) for each in findings)
        for each in findings:
            remedy = f"; {each.remedy}" if each.remedy else ""
            print(printable(f"{each.grade:<7}  {each.subject:<{width}}  {each.text}{remedy}"))
    return FAILED if any(each.grade is Grade.FAILURE for each in findings) else 0
