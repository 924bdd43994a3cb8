/** A numbered page (from 0) that shows the records from an offset on. */
export interface ChosenPage {
  readonly page: number;
  readonly size: number;
  /** Records at its start that lie before the offset. */
  readonly skip: number;
}

/**
 * A walk by offset asks for 10 records again at the head of each page, or 30 where it stepped back. A page that ends
 * just there, and is less than half as long as asked, would look like the end of the listing.
 */
const overlaps = [10, 30];

/**
 * One page, because rows could move between two calls: of the sizes up to `asked`, the one whose page shows the most
 * records from the offset on. Where even that is too short to continue from, a larger size up to `maxSize`. Null: no
 * size will do, which only happens for a few offsets of services whose pages hold up to 30 records.
 */
export function choosePage(offset: number, asked: number, maxSize: number): ChosenPage | null {
  let best = pageOf(offset, asked);
  for (let size = asked - 1; size >= 1 && shown(best) < asked; size -= 1) {
    const page = pageOf(offset, size);
    if (shown(page) > shown(best)) best = page;
  }
  if (isLongEnough(best, asked)) return best;
  for (let size = asked + 1; size <= maxSize; size += 1) {
    const page = pageOf(offset, size);
    if (shown(page) >= asked) return page;
  }
  return null;
}

function pageOf(offset: number, size: number): ChosenPage {
  const page = Math.floor(offset / size);
  return { page, size, skip: offset - page * size };
}

function shown({ size, skip }: ChosenPage): number {
  return size - skip;
}

function isLongEnough(page: ChosenPage, asked: number): boolean {
  const length = shown(page);
  return 2 * length >= asked || (length > Math.min(...overlaps) && !overlaps.includes(length));
}
