/**
 * What the service of `slow-service.ts` has: the orders of an account's shops, the same each time. A connector reads
 * those of one shop.
 */
export interface Order {
  readonly id: string;
  readonly customer: string;
  readonly total: number;
  readonly note: string;
}

export const rowsPerPage = 25;

export function ordersOf(shop: string, page: number): readonly Order[] {
  return Array.from({ length: rowsPerPage }, (_, row) => {
    const number = page * rowsPerPage + row;
    return {
      id: `${shop}-${number}`,
      customer: `customer ${(number * 7) % 101}`,
      total: ((number * 37) % 9_973) / 100,
      note: `order ${number} of ${shop}, as it was placed`,
    };
  });
}

export const definitionName = 'order-book';
export const definitionId = 'a3c1a1c4-5d0e-4f6c-9a51-6a0b7f4f8d11';

/** The connector type, as a file has it. */
export const definitionText = `name: ${definitionName}
title: Order book
id: ${definitionId}
rateLimit: { requestsPerSecond: 1000, concurrency: 1 }
entities:
  orders:
    fields: { id: string, customer: string, total: number, note: string }
    key: [id]
    actions:
      list:
        params:
          shop: string
          cursor: string
          limit: { type: integer, min: 1, max: ${rowsPerPage}, default: ${rowsPerPage}, aboveMax: refuse }
    pagination:
      kind: pageToken
      tokenParam: cursor
      sizeParam: limit
      maxSize: ${rowsPerPage}
      flagKeys: [has_next_page]
      tokenKeys: [end_cursor]
      lifetimeMs: 3600000
`;
