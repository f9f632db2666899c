"""An executed program, rounding included."""
