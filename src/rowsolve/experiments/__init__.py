"""Problems to try methods on."""
