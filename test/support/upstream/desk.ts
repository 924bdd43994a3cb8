import { isJsonObject, type JsonObject } from '../../../src/core/json.ts';
import { createSampleAccount } from '../../../src/sample/sample-service.ts';
import { personAt, textOf } from '../../../src/sample/sample-values.ts';
import { sampleTruth } from '../sample-truth.ts';
import {
  type Answer,
  AnswerInstead,
  basicOf,
  type CredentialState,
  type FakeRequest,
  jsonAnswer,
  matchPath,
  openOAuthServer,
  startFakeServer,
  tokenOf,
} from './fake-server.ts';

export type FakeDesk = Awaited<ReturnType<typeof startFakeDesk>>;

/**
 * A help desk that exists nowhere, for the kinds of paging and authentication that neither Mailchimp nor Notion has.
 * The definition for it is `test/fixtures/upstream/help-desk.yaml`. `rowsNow`: the rows of a kind as they are at this
 * moment, asked once for each call of its list; by default 57 that never change.
 */
export async function startFakeDesk(rowsNow?: (entity: string) => readonly JsonObject[]) {
  const library = createSampleAccount({ definitionName: 'document-library', seed: 11, size: 'tiny' });
  const attachments = [...sampleTruth(library, 'attachments')].map(({ record }) => record);
  const bytesById = new Map<string, Uint8Array>();
  for (const id of attachments.map((record) => textOf(record['id']))) {
    const file = library.file?.('attachments', { attachment_id: id });
    const chunks: Uint8Array[] = [];
    for await (const chunk of file?.read(new AbortController().signal) ?? []) chunks.push(chunk);
    bytesById.set(id, Buffer.concat(chunks));
  }
  const fixed = new Map(deskEntities.map((entity) => [entity as string, deskRows(entity, 57)]));
  const rowsOf = (entity: string): readonly JsonObject[] =>
    entity === 'attachments' ? attachments : (rowsNow?.(entity) ?? fixed.get(entity) ?? []);
  const oauth = openOAuthServer();
  const key = 'desk-key-7e21c9';
  const user = 'ada@example.test/token';
  const accountId = 'desk-9';

  const credentialOf = (request: FakeRequest): CredentialState => {
    const { path, headers, query } = request;
    if (path === '/oauth/token') return oauth.clientOf(request);
    if (isOfFile(request)) {
      const has = ['authorization', 'x-desk-key', 'cookie'].some((name) => name in headers);
      return has || query.has('apikey') ? 'right' : 'none';
    }
    const basic = basicOf(request);
    const token = tokenOf(request);
    const sent = [
      ...(headers['x-desk-key'] === undefined ? [] : [headers['x-desk-key'] === `Key ${key}`]),
      ...(query.has('apikey') ? [query.get('apikey') === key] : []),
      ...(basic === null ? [] : [basic[0] === user && basic[1] === key]),
      ...(token === null ? [] : [token === key || oauth.takes(token)]),
    ];
    if (sent.length === 0) return 'none';
    return sent.every(Boolean) ? 'right' : 'wrong';
  };

  const answer = (request: FakeRequest): Answer => {
    const { path, method } = request;
    if (path === '/oauth/token') return oauth.answer(request);
    if (isOfFile(request)) return answerFile(path, bytesById);
    if (credentialOf(request) !== 'right') return deskError(401, 'invalid_auth', 'log in first');
    if (path === '/api/account') {
      return jsonAnswer(200, { ok: true, account: { id: accountId, name: 'Help desk' } });
    }
    if (path === '/api/articles/query') return list('articles', request);
    if (path.startsWith('/api/parcels/')) return list('parcels', request);
    for (const entity of deskEntities) {
      if (entity !== 'articles' && path === `/api/${entity}` && method === 'GET') {
        return list(entity, request);
      }
      const id = matchPath(`/api/${entity}/{id}`, path)?.['id'];
      if (id !== undefined) return single(entity, id);
    }
    if (path === '/api/attachments') return jsonAnswer(200, { ok: true, attachments });
    const content = matchPath('/api/attachments/{id}/content', path)?.['id'];
    if (content !== undefined) return fileAt(content, (address) => redirect(address));
    const link = matchPath('/api/attachments/{id}/link', path)?.['id'];
    if (link !== undefined) return fileAt(link, (address) => jsonAnswer(200, { file: { href: address } }));
    const id = matchPath('/api/attachments/{id}', path)?.['id'];
    return id === undefined ? notFound(path) : single('attachments', id);
  };

  const list = (entity: DeskEntity, request: FakeRequest): Answer =>
    deskLists[entity]({ request, origin: server.origin, rows: rowsOf(entity) });

  const single = (entity: string, id: string): Answer => {
    const record = rowsOf(entity).find((row) => row['id'] === id);
    return record === undefined ? notFound(id) : jsonAnswer(200, { ok: true, data: record });
  };

  const fileAt = (id: string, found: (address: string) => Answer): Answer =>
    bytesById.has(id) ? found(`${server.origin}/hop/${id}?signature=5f6e7d8c`) : notFound(id);

  const server = await startFakeServer({ answer, credentialOf });
  return Object.assign(server, {
    /** Where the API lies: `http://127.0.0.1:PORT/api`. */
    baseUrl: `${server.origin}/api`,
    key,
    /** User of basic authentication: an address with a word at its end. */
    user,
    oauth,
    accountId,
    /** Requests for files, which lie behind redirects and must never see a credential; any at all counts as `right`. */
    fileRequests: () => server.requests.filter(isOfFile),
    /** All records of a kind, as they are now. */
    rows: rowsOf,
    /** The bytes of a file; null: there is none. */
    fileOf: (id: string): Uint8Array | null => bytesById.get(id) ?? null,
  });
}

function isOfFile({ path }: Pick<FakeRequest, 'path'>): boolean {
  return /^\/(hop|blob)\//.test(path);
}

function answerFile(path: string, bytesById: ReadonlyMap<string, Uint8Array>): Answer {
  const hop = matchPath('/hop/{id}', path)?.['id'];
  // A second hop, relative, as storage services have them.
  if (hop !== undefined) return redirect(`/blob/${hop}`);
  const id = matchPath('/blob/{id}', path)?.['id'];
  const body = bytesById.get(id ?? '');
  if (body === undefined) {
    return { status: 404, headers: { 'content-type': 'text/plain' }, body: 'no such file' };
  }
  const headers = {
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="${id}.bin"`,
  };
  return { status: 200, headers, body };
}

function redirect(location: string): Answer {
  return { status: 302, headers: { location, 'content-type': 'text/plain' }, body: 'elsewhere' };
}

function notFound(what: string): Answer {
  return deskError(404, 'not_found', `there is no ${what}`);
}

// --- Lists

function deskError(status: number, error: string, message: string): Answer {
  return jsonAnswer(status, { ok: false, error, message });
}

/** What a list needs besides the request: the rows as they are at this moment. */
interface DeskList {
  readonly request: FakeRequest;
  /** The address of this service, for links to further pages. */
  readonly origin: string;
  readonly rows: readonly JsonObject[];
}

/** Each kind of records has its own kind of paging. */
const deskLists: Readonly<Record<DeskEntity, (list: DeskList) => Answer>> = {
  /** By number, from 1; the array is the whole body, and a header says how many there are. */
  agents({ request, rows }) {
    const page = whole(request, 'page', 1);
    const size = sizeOf(request.query.get('per_page'));
    if (page < 1) throw invalid('page counts from 1');
    const records = rows.slice((page - 1) * size, page * size);
    return jsonAnswer(200, records, { 'x-total-count': String(rows.length) });
  },
  /** After the last record. */
  tickets({ request, rows }) {
    const after = request.query.get('starting_after');
    const start = after === null ? 0 : rows.findIndex(({ id }) => id === after) + 1;
    if (start === 0 && after !== null) throw invalid(`no such ticket: ${after}`);
    const end = start + sizeOf(request.query.get('limit'));
    return jsonAnswer(200, { object: 'list', data: rows.slice(start, end), has_more: end < rows.length });
  },
  /** By the address of the next page, in the body; null at the end. */
  customers({ request, rows, origin }) {
    const size = sizeOf(request.query.get('size'));
    const start = startOf(request.query.get('cursor'));
    const end = start + size;
    const next = new URLSearchParams({ size: String(size), cursor: cursorAt(end), view: 'full' });
    return jsonAnswer(200, {
      items: rows.slice(start, end),
      links: { next: end < rows.length ? `${origin}/api/customers?${next.toString()}` : null },
    });
  },
  /** By the `Link` header, beside a link back. */
  events({ request, rows, origin }) {
    const size = sizeOf(request.query.get('limit'));
    const start = startOf(request.query.get('after'));
    const end = start + size;
    const first = `<${origin}/api/events?limit=${size}>; rel="first"`;
    const next = `<${origin}/api/events?limit=${size}&after=${cursorAt(end)}>; rel="next"`;
    return jsonAnswer(200, rows.slice(start, end), { link: end < rows.length ? `${first}, ${next}` : first });
  },
  /** By a cursor in the body of a POST that changes nothing; an empty text ends. */
  articles({ request, rows }) {
    if (request.method !== 'POST') throw new AnswerInstead(deskError(405, 'method_not_allowed', 'POST only'));
    const { page, filter, ...others } = isJsonObject(request.body) ? request.body : {};
    const [unknown] = Object.keys(others);
    if (unknown !== undefined) throw invalid(`unknown member of the body: ${unknown}`);
    const { after, size } = isJsonObject(page) ? page : {};
    const state = isJsonObject(filter) ? filter['state'] : undefined;
    const found = state === undefined ? rows : rows.filter((row) => row['state'] === state);
    const start = startOf(after === undefined ? null : textOf(after));
    const end = start + sizeOf(size === undefined ? null : textOf(size));
    return jsonAnswer(200, {
      result: { articles: found.slice(start, end) },
      page: { next: end < found.length ? cursorAt(end) : '' },
    });
  },
  /** By count and offset under names of its own, with a total in the body. */
  invoices({ request, rows }) {
    const start = whole(request, 'startAt', 0);
    const size = sizeOf(request.query.get('maxResults'));
    return jsonAnswer(200, { values: rows.slice(start, start + size), startAt: start, total: rows.length });
  },
  /** By a cursor that comes in a header; the page's size is asked for in one. */
  messages({ request, rows }) {
    const start = startOf(request.query.get('cursor'));
    const end = start + sizeOf(request.headers['x-page-size'] ?? null);
    const more = end < rows.length;
    return jsonAnswer(
      200,
      { messages: rows.slice(start, end) },
      { 'x-has-more': String(more), ...(more ? { 'x-next-cursor': cursorAt(end) } : {}) },
    );
  },
  /** By the next page's address, given as a path: what it has besides the place changes, and no filter goes with it. */
  reviews({ request, rows }) {
    const { query } = request;
    const place = query.get('page_info');
    if (place !== null && query.has('state')) throw invalid('page_info goes alone');
    const start = startOf(place);
    const size = sizeOf(query.get('limit'));
    const end = start + size;
    const next = new URLSearchParams({ page_info: cursorAt(end), limit: String(size) });
    // The key of the caller is repeated, as some services do.
    for (const [name, value] of query) if (name === 'apikey') next.set(name, value);
    return jsonAnswer(200, {
      reviews: rows.slice(start, end),
      next_page_uri: end < rows.length ? `/api/reviews?${next.toString()}` : null,
    });
  },
  /** By an address whose path ends in the place, which also knows the size of a page. */
  parcels({ request, rows }) {
    const [place = null, size = '20'] = (request.path.split('/')[3] ?? '').split('~').filter(Boolean);
    const start = startOf(place);
    const length = sizeOf(place === null ? request.query.get('limit') : size);
    const end = start + length;
    const next = `/api/parcels/${cursorAt(end)}~${length}`;
    return jsonAnswer(200, { records: rows.slice(start, end), ...(end < rows.length ? { next } : {}) });
  },
};

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

// --- Rows

/** Kinds of records of the help desk, each listed in another way. */
export const deskEntities = [
  'agents',
  'tickets',
  'customers',
  'events',
  'articles',
  'invoices',
  'messages',
  'reviews',
  'parcels',
] as const;

type DeskEntity = (typeof deskEntities)[number];

/** So many records of a kind, always the same. Ids grow. */
export function deskRows(entity: string, count: number): readonly JsonObject[] {
  return Array.from({ length: count }, (_, index) => {
    const { first, last, email } = personAt(entity.length, index);
    return {
      id: `${entity.slice(0, 2)}_${String(index + 1).padStart(5, '0')}`,
      title: `${first} ${last}`,
      email,
      state: index % 3 === 2 ? 'closed' : 'open',
      changed_at: new Date(Date.UTC(2026, 0, 1, 0, index)).toISOString(),
    };
  });
}

/** Opaque text for the place before the row at this position. */
const cursorAt = (start: number): string => Buffer.from(`place ${start}`).toString('base64url');

function startOf(cursor: string | null): number {
  if (cursor === null) return 0;
  const [, start] = /^place (\d+)$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (start !== undefined) return Number(start);
  throw new AnswerInstead(deskError(400, 'cursor_expired', 'the cursor is not known any more'));
}
