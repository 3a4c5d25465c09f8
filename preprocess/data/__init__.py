"""Tables and their schemas: read from files, embedded, and divided among the parties of a federation."""
