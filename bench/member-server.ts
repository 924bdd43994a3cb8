import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../src/core/json.ts';
import { openMailingAccount } from '../src/sample/mailing-sample.ts';

/**
 * A server with minimal overhead, so that the benchmark measures the clients: up to 200,000 members are made once and
 * held as texts, which a page joins; of a longer list only the next pages, made while the client works on the last one.
 * `shuffled`: every answer has the members of its objects in another order, and links with another signature.
 * `changed`: every member has another name. `node member-server.js <members> [shuffled | changed]`; prints its port.
 */
const members = Number(process.argv[2]);
const isShuffled = process.argv[3] === 'shuffled';
const isChanged = process.argv[3] === 'changed';
const mostHeld = 200_000;
const account = openMailingAccount(7, { members }, 0);
const list = account.list('lists', {}).slice(0, 1)[0];
if (list === undefined) throw new Error('the sample account has no list');
const listing = account.list('list_members', { list_id: list['id'] ?? null });

/** Members as texts, from the one at `from`. */
const made = { from: 0, texts: [] as string[] };

function makeUpTo(end: number): void {
  const start = made.from + made.texts.length;
  for (const record of listing.slice(start, end - start)) {
    made.texts.push(JSON.stringify(isChanged ? { ...record, full_name: `changed ${start}` } : record));
  }
}

function textsAt(offset: number, count: number): readonly string[] {
  if (isShuffled) return listing.slice(offset, count).map((record) => JSON.stringify(shuffled(record)));
  // Asked for what lies behind the last member, it keeps what it has made.
  if (offset >= members) return [];
  if (offset < made.from || offset > made.from + made.texts.length) {
    Object.assign(made, { from: offset, texts: [] });
  }
  makeUpTo(offset + count);
  return made.texts.slice(offset - made.from, offset - made.from + count);
}

function prepareAfter(offset: number, count: number): void {
  if (isShuffled || members <= mostHeld) return;
  made.texts.splice(0, offset - made.from);
  made.from = offset;
  makeUpTo(offset + 2 * count);
}

let answers = 0;

/** Begins with another member in every answer. */
function shuffled(value: JsonValue): JsonValue {
  if (isJsonArray(value)) return value.map(shuffled);
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).map(([name, member]): [string, JsonValue] => [
    name,
    typeof member === 'string' && name === 'href' ? `${member}?signature=${randomUUID()}` : shuffled(member),
  ]);
  const first = entries.length === 0 ? 0 : answers % entries.length;
  return Object.fromEntries([...entries.slice(first), ...entries.slice(0, first)]) satisfies JsonObject;
}

function envelope(records: readonly string[]): string {
  return `{"status":"success","result":[${records.join(',')}],"connector_metadata":{"links":[]},"execution_metadata":{"connector_instance_id":"source_id:bench","execution_time_ms":1}}`;
}

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    response.setHeader('content-type', 'application/json');
    if (request.url?.endsWith('/token') === true) {
      response.end('{"access_token":"bench-token","token_type":"bearer","expires_in":3600}');
      return;
    }
    if (request.method === 'GET') {
      response.end('{"id":"bench","name":"bench"}');
      return;
    }
    const { entity, params } = JSON.parse(Buffer.concat(chunks).toString()) as {
      entity: string;
      params: { offset?: number; count?: number };
    };
    const offset = params.offset ?? 0;
    if (entity === 'lists') {
      response.end(envelope(offset === 0 ? [JSON.stringify(list)] : []));
      return;
    }
    const count = Math.min(params.count ?? 10, 1000);
    answers += 1;
    response.end(envelope(textsAt(offset, count)), () => prepareAfter(offset, count));
  });
});
if (!isShuffled) makeUpTo(Math.min(members, mostHeld));
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
