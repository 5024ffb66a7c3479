//! Plain functions on slices: the CPU engine's arithmetic. Single-threaded; whoever calls them splits the work.
