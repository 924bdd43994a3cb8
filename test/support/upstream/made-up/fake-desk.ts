import type { JsonObject } from '../../../../src/core/json.ts';
import { createSampleAccount } from '../../../../src/sample/sample-service.ts';
import { textOf } from '../../../../src/sample/sample-values.ts';
import { sampleTruth } from '../../sample-truth.ts';
import { type Answer, jsonAnswer } from '../answer.ts';
import {
  basicOf,
  type CredentialState,
  type FakeRequest,
  type LoggedRequest,
  tokenOf,
} from '../fake-request.ts';
import { type FakeServer, startFakeServer } from '../fake-server.ts';
import { type Effect, instead } from '../faults.ts';
import { matchPath } from '../match-path.ts';
import { type OAuthServer, openOAuthServer } from '../oauth-server.ts';
import { deskError, deskLists } from './desk-lists.ts';
import { deskEntities, deskRows, openDeskCursors } from './desk-rows.ts';

export interface FakeDeskOptions {
  /**
   * The rows of a kind as they are at this moment; asked once for each call of its list. By default 57 that never
   * change.
   */
  readonly rows?: (entity: string) => readonly JsonObject[];
  readonly accountName?: string;
}

export interface FakeDesk extends FakeServer {
  /** Where the API lies: `http://127.0.0.1:PORT/api`. */
  readonly baseUrl: string;
  readonly key: string;
  /** User of basic authentication: an address with a word at its end. */
  readonly user: string;
  readonly oauth: OAuthServer;
  readonly accountId: string;
  /** Requests for files, which lie behind redirects and must never see a credential; any at all counts as `right`. */
  fileRequests(): readonly LoggedRequest[];
  /** All records of a kind, as they are now. */
  rows(entity: string): readonly JsonObject[];
  /** The bytes of a file; null: there is none. */
  fileOf(id: string): Uint8Array | null;
}

/**
 * A help desk that exists nowhere, for the kinds of paging and authentication that neither Mailchimp nor Notion has.
 * The definition for it is `test/fixtures/upstream/help-desk.yaml`.
 */
export async function startFakeDesk(options: FakeDeskOptions = {}): Promise<FakeDesk> {
  const { accountName = 'Help desk' } = options;
  const library = createSampleAccount({ definitionName: 'document-library', seed: 11, size: 'tiny' });
  const attachments = [...sampleTruth(library, 'attachments')].map(({ record }) => record);
  const bytesById = new Map<string, Uint8Array>();
  for (const id of attachments.map((record) => textOf(record['id']))) {
    bytesById.set(id, await bytesOf(library, id));
  }
  const fixed = new Map(deskEntities.map((entity) => [entity as string, deskRows(entity, 57)]));
  const rowsOf = (entity: string): readonly JsonObject[] =>
    entity === 'attachments' ? attachments : (options.rows?.(entity) ?? fixed.get(entity) ?? []);
  const cursors = openDeskCursors();
  const oauth = openOAuthServer();
  const key = 'desk-key-7e21c9';
  const user = 'ada@example.test/token';
  const accountId = `desk-${accountName.length}`;

  const credentialOf = (request: FakeRequest): CredentialState => {
    if (request.path === '/oauth/token') return oauth.clientOf(request);
    if (isOfFile(request)) return hasCredential(request) ? 'right' : 'none';
    const basic = basicOf(request);
    const token = tokenOf(request);
    const sent = [
      ...(request.headers['x-desk-key'] === undefined
        ? []
        : [request.headers['x-desk-key'] === `Key ${key}`]),
      ...(request.query.has('apikey') ? [request.query.get('apikey') === key] : []),
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
      return jsonAnswer(200, { ok: true, account: { id: accountId, name: accountName } });
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

  const list = (entity: keyof typeof deskLists, request: FakeRequest): Answer =>
    deskLists[entity]({ request, origin: server.origin, rows: rowsOf(entity), cursors });

  const single = (entity: string, id: string): Answer => {
    const record = rowsOf(entity).find((row) => row['id'] === id);
    return record === undefined ? notFound(id) : jsonAnswer(200, { ok: true, data: record });
  };

  const fileAt = (id: string, answer: (address: string) => Answer): Answer =>
    bytesById.has(id) ? answer(`${server.origin}/hop/${id}?signature=5f6e7d8c`) : notFound(id);

  const server = await startFakeServer({ answer, credentialOf });
  return Object.assign(server, {
    baseUrl: `${server.origin}/api`,
    key,
    user,
    oauth,
    accountId,
    fileRequests: () => server.requests.filter(isOfFile),
    rows: rowsOf,
    fileOf: (id: string) => bytesById.get(id) ?? null,
  });
}

/** Errors that this service tells in the body of a 200, by their code. */
export function errorWithOk(error: string): Effect {
  return instead(jsonAnswer(200, { ok: false, error }));
}

function isOfFile({ path }: Pick<FakeRequest, 'path'>): boolean {
  return /^\/(hop|blob)\//.test(path);
}

function hasCredential({ headers, query }: FakeRequest): boolean {
  return ['authorization', 'x-desk-key', 'cookie'].some((name) => name in headers) || query.has('apikey');
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

async function bytesOf(library: ReturnType<typeof createSampleAccount>, id: string): Promise<Uint8Array> {
  const file = library.file?.('attachments', { attachment_id: id });
  const chunks: Uint8Array[] = [];
  if (file !== null && file !== undefined) {
    for await (const chunk of file.read(new AbortController().signal)) chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
