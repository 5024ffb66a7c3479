//! Attention as data and as pictures.
