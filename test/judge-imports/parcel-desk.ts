import { address, afterRecord, numbered, offset, single, token } from './paging-kinds.ts';
import type { Vendor } from './vendor.ts';

const size = { name: 'limit', max: 10, usual: 4, over: 'refuse' } as const;

/** How the made-up service of `test/fixtures/judge-imports/parcel-desk.yaml` pages. */
export const parcelDesk: Vendor = {
  docs: 'made up',
  base: '/v1',
  credentials: { api_key: 'key-1' },
  signed: { Authorization: 'Bearer key-1' },
  all: { at: 'items' },
  entities: {
    parcels: { pages: token({ send: 'cursor', told: 'next_cursor', size }) },
    events: {
      pages: afterRecord({ send: 'starting_after', field: 'id', more: 'has_more', size }),
      of: { parcel_id: 'parcels.id' },
    },
    depots: { at: '', pages: numbered({ page: 'page', size }) },
    drivers: { pages: address({ told: 'links.next', send: 'page[cursor]', size }) },
    routes: { pages: offset({ offset: 'offset', total: 'total_items', size }) },
    stamps: { at: 'list', each: 'stamp', pages: single() },
  },
};
