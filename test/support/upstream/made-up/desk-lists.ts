import { isJsonObject, type JsonObject } from '../../../../src/core/json.ts';
import { textOf } from '../../../../src/sample/sample-values.ts';
import { type Answer, AnswerInstead, jsonAnswer } from '../answer.ts';
import type { FakeRequest } from '../fake-request.ts';
import type { DeskCursors, DeskEntity } from './desk-rows.ts';

export function deskError(status: number, error: string, message: string): Answer {
  return jsonAnswer(status, { ok: false, error, message });
}

/** What a list needs besides the request: the rows as they are at this moment, and places in them. */
export interface DeskList {
  readonly request: FakeRequest;
  /** The address of this service, for links to further pages. */
  readonly origin: string;
  readonly rows: readonly JsonObject[];
  readonly cursors: DeskCursors;
}

/** Each kind of records has its own kind of paging. */
export const deskLists: Readonly<Record<DeskEntity, (list: DeskList) => Answer>> = {
  /** By number, from 1; the array is the whole body, and a header says how many there are. */
  agents({ request, rows }) {
    const page = whole(request, 'page', 1);
    const size = sizeOf(request.query.get('per_page'));
    if (page < 1) throw invalid('page counts from 1');
    const records = rows.slice((page - 1) * size, page * size);
    return jsonAnswer(200, records, { 'x-total-count': String(rows.length) });
  },
  /** After the last record. */
  tickets({ request, rows, cursors }) {
    const after = request.query.get('starting_after');
    const start = after === null ? 0 : cursors.positionAfter(rows, after);
    if (start === null) throw invalid(`no such ticket: ${after}`);
    const end = start + sizeOf(request.query.get('limit'));
    // So that a ticket which is deleted before the next page is asked for is still a place.
    cursors.at(rows, end);
    return jsonAnswer(200, { object: 'list', data: rows.slice(start, end), has_more: end < rows.length });
  },
  /** By the address of the next page, in the body; null at the end. */
  customers({ request, rows, cursors, origin }) {
    const size = sizeOf(request.query.get('size'));
    const start = startOf(rows, cursors, request.query.get('cursor'));
    const end = start + size;
    const next = new URLSearchParams({ size: String(size), cursor: cursors.at(rows, end), view: 'full' });
    return jsonAnswer(200, {
      items: rows.slice(start, end),
      links: { next: end < rows.length ? `${origin}/api/customers?${next.toString()}` : null },
    });
  },
  /** By the `Link` header, beside a link back. */
  events({ request, rows, cursors, origin }) {
    const size = sizeOf(request.query.get('limit'));
    const start = startOf(rows, cursors, request.query.get('after'));
    const end = start + size;
    const first = `<${origin}/api/events?limit=${size}>; rel="first"`;
    const next = `<${origin}/api/events?limit=${size}&after=${cursors.at(rows, end)}>; rel="next"`;
    return jsonAnswer(200, rows.slice(start, end), { link: end < rows.length ? `${first}, ${next}` : first });
  },
  /** By a cursor in the body of a POST that changes nothing; an empty text ends. */
  articles({ request, rows, cursors }) {
    if (request.method !== 'POST') throw new AnswerInstead(deskError(405, 'method_not_allowed', 'POST only'));
    const { page, filter, ...others } = isJsonObject(request.body) ? request.body : {};
    const [unknown] = Object.keys(others);
    if (unknown !== undefined) throw invalid(`unknown member of the body: ${unknown}`);
    const { after, size } = isJsonObject(page) ? page : {};
    const state = isJsonObject(filter) ? filter['state'] : undefined;
    const found = state === undefined ? rows : rows.filter((row) => row['state'] === state);
    const start = startOf(found, cursors, after === undefined ? null : textOf(after));
    const end = start + sizeOf(size === undefined ? null : textOf(size));
    return jsonAnswer(200, {
      result: { articles: found.slice(start, end) },
      page: { next: end < found.length ? cursors.at(found, end) : '' },
    });
  },
  /** By count and offset under names of its own, with a total in the body. */
  invoices({ request, rows }) {
    const start = whole(request, 'startAt', 0);
    const size = sizeOf(request.query.get('maxResults'));
    return jsonAnswer(200, { values: rows.slice(start, start + size), startAt: start, total: rows.length });
  },
  /** By a cursor that comes in a header; the page's size is asked for in one. */
  messages({ request, rows, cursors }) {
    const start = startOf(rows, cursors, request.query.get('cursor'));
    const end = start + sizeOf(request.headers['x-page-size'] ?? null);
    const more = end < rows.length;
    return jsonAnswer(
      200,
      { messages: rows.slice(start, end) },
      { 'x-has-more': String(more), ...(more ? { 'x-next-cursor': cursors.at(rows, end) } : {}) },
    );
  },
  /** By the next page's address, given as a path: what it has besides the place changes, and no filter goes with it. */
  reviews({ request, rows, cursors }) {
    const { query } = request;
    const place = query.get('page_info');
    if (place !== null && query.has('state')) throw invalid('page_info goes alone');
    const start = startOf(rows, cursors, place);
    const size = sizeOf(query.get('limit'));
    const end = start + size;
    const next = new URLSearchParams({ page_info: cursors.at(rows, end), limit: String(size) });
    // The key of the caller is repeated, as some services do.
    for (const [name, value] of query) if (name === 'apikey') next.set(name, value);
    return jsonAnswer(200, {
      reviews: rows.slice(start, end),
      next_page_uri: end < rows.length ? `/api/reviews?${next.toString()}` : null,
    });
  },
  /** By an address whose path ends in the place, which also knows the size of a page. */
  parcels({ request, rows, cursors }) {
    const [place = null, size = '20'] = (request.path.split('/')[3] ?? '').split('~').filter(Boolean);
    const start = startOf(rows, cursors, place);
    const length = sizeOf(place === null ? request.query.get('limit') : size);
    const end = start + length;
    const next = `/api/parcels/${cursors.at(rows, end)}~${length}`;
    return jsonAnswer(200, { records: rows.slice(start, end), ...(end < rows.length ? { next } : {}) });
  },
};

function startOf(rows: readonly JsonObject[], cursors: DeskCursors, cursor: string | null): number {
  if (cursor === null) return 0;
  const start = cursors.positionOf(rows, cursor);
  if (start === null) {
    throw new AnswerInstead(deskError(400, 'cursor_expired', 'the cursor is not known any more'));
  }
  return start;
}

/** 20 unless it is asked for; at most 50, and more is refused. */
function sizeOf(value: string | null): number {
  if (value === null) return 20;
  const size = Number(value);
  if (!Number.isInteger(size) || size < 1 || size > 50) throw invalid('a page has 1 to 50 records');
  return size;
}

function whole({ query }: FakeRequest, name: string, otherwise: number): number {
  const value = query.get(name);
  if (value === null) return otherwise;
  if (!/^\d+$/.test(value)) throw invalid(`${name} is no whole number`);
  return Number(value);
}

function invalid(message: string): AnswerInstead {
  return new AnswerInstead(deskError(400, 'invalid_request', message));
}
