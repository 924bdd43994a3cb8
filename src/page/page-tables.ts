import { html, type SafeHtml } from '@remix-run/html-template';
import { classOf } from './page-parts.ts';

/**
 * A column: its title, its cell in a row, the look of its cells, and the order if rows are sorted by it. Looks are
 * `num`, `cut` (takes the rest of the width), `o` (not on phones), `o2` (wide screens only).
 */
export type Column<Row> = readonly [
  title: SafeHtml | string,
  cell: (row: Row) => SafeHtml | string,
  look?: string,
  sorted?: 'ascending' | 'descending' | undefined,
];

interface RowLooks<Row> {
  /** `go`: a row leads where its name leads. */
  readonly look?: 'go';
  /** The place of the name; absent: the first. */
  readonly nameAt?: number;
  /** `in1`, `in2` indent the name. */
  readonly name?: (row: Row) => string;
  /** `gone` is struck through. */
  readonly row?: (row: Row) => string;
  readonly isChosen?: (row: Row) => boolean;
  /** The heading above rows that follow each other and have it in common. */
  readonly group?: (row: Row) => string;
}

/** A table in a box that scrolls where it is too narrow, by keyboard too. */
export function table<Row>(
  caption: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  looks: RowLooks<Row> = {},
): SafeHtml {
  const { look = '', nameAt = 0, name, row: lookOf, isChosen, group } = looks;
  const titles = columns.map(([title, , of = '', sorted]) => {
    const order = sorted === undefined ? '' : html`aria-sort="${sorted}"`;
    return html`<th scope="col" ${classOf(of)} ${order}>${title}</th>`;
  });
  const shown = rows.map((row, index) => {
    const before = rows[index - 1];
    const heading = group?.(row);
    const isNew = heading !== undefined && (before === undefined || group?.(before) !== heading);
    const cells = columns.map(([, cellOf, of = ''], at) => {
      const cell = cellOf(row);
      if (at === nameAt) return html`<th scope="row" ${classOf(name?.(row) ?? '')}>${cell}</th>`;
      return html`<td ${classOf(of)}>${cell === '0' ? html`<span class="soft">0</span>` : cell}</td>`;
    });
    return html`${
        isNew
          ? html`<tr class="group">
              <th colspan="${columns.length}" scope="rowgroup">${heading}</th>
            </tr>`
          : ''
      }
      <tr ${classOf(lookOf?.(row) ?? '')} ${isChosen?.(row) === true ? html`aria-current="true"` : ''}>
        ${cells}
      </tr>`;
  });
  return html`<div class="wide ${look}" tabindex="0" role="region" aria-label="${caption}">
    <table>
      <thead>
        <tr>
          ${titles}
        </tr>
      </thead>
      <tbody>
        ${shown}
      </tbody>
    </table>
  </div>`;
}
