"""From traces to what people read: tables, drawings and figures. No torch."""
