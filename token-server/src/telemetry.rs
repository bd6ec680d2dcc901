//! What the server counts.
