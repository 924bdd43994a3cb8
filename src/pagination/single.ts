import * as z from 'zod';
import type { PaginationStyle } from './pagination.ts';

const positionSchema = z.object({ kind: z.literal('single'), pages: z.number() });

/** Everything comes in one response: that response is the proof. */
export const singleStyle: PaginationStyle = {
  restsOnOrder: false,
  walk: () => ({
    begin: () => ({ kind: 'single', pages: 0 }),
    request: () => ({}),
    advance: (position) => ({
      kind: 'end',
      position: { kind: 'single', pages: positionSchema.parse(position).pages + 1 },
      proof: { kind: 'single', isOrdered: true },
    }),
    halve: () => null,
    expired: () => null,
  }),
  readNext: () => null,
  calls: (_rows, listings) => listings,
};
