/** What a worker process tells its supervisor, once a second at most. */
export type WorkerMessage =
  | { type: 'registered'; workerId: number }
  | { type: 'account'; calls: number; usd: string; replayed: number; lastFailure: string | undefined };
