"""What readers see: figures, pages, the site."""
