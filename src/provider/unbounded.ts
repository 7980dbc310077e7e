/** A part of a request whose cost has no bound; the message says which, and what to do. */
export class Unbounded extends Error {}
