"""Reports: a record in, a page or a file out. Nothing here runs an audit."""
