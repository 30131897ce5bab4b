"""Users' files and code: images, labels, classes, masks, prices, and output folders."""
