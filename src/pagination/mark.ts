import { hash } from 'node:crypto';

/** 16 hex digits that stand for a mark in a position: a hundred of them stay under 2 KB whatever the keys' length. */
export function shortMark(mark: string): string {
  return hash('sha256', mark, 'hex').slice(0, 16);
}

/** One value for a whole page's marks in order; '' for an empty page. */
export function pageMark(marks: readonly string[]): string {
  return marks.length === 0 ? '' : shortMark(JSON.stringify(marks));
}
