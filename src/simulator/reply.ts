export const STREAM_TYPE = 'text/event-stream; charset=utf-8';
export const JSON_TYPE = 'application/json';
export const PAGE_TYPE = 'text/html; charset=utf-8';

/** A whole response as it would be sent. */
export type Reply = { readonly status: number; readonly contentType: string; readonly body: Buffer };
