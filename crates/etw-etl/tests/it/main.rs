//! Reading and writing `.etl` files, sound and damaged.

mod alloc;
mod corpus;
mod damage;
mod mutate;
mod order;
mod parts;
mod relog;
mod repair;
mod replay;
mod round_trip;
mod stream;
mod support;
