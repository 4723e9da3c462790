"""A day in a lab, replayed in ten minutes: 32 owners submit runs to a server, or train them without one."""
