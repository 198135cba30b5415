//! Tests of `datapath/hygenicc.h`: the tables of the specification, marks and their counts, and whole edges.

mod delays;
mod edges;
mod laws;
mod marks;
mod plain;
