/** How long sending one message may take, for whichever channel. */
export const mostNoticeMs = 10_000;

/** What became of one attempt. `refused`: to repeat it would not help. */
export type Sent =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'refused'; readonly error: string }
  | { readonly kind: 'failed'; readonly error: string; readonly retryAfterMs: number };
