"""Results for people: a page, tables for a terminal, one state explained."""
