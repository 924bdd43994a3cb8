import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createSampleAccount } from '../src/sample/create-sample-account.ts';

/**
 * A server with minimal overhead, so that the benchmark measures the clients: every member is serialized once, and a
 * page joins these texts. `node member-server.js <members>`; prints its port.
 */
const members = Number(process.argv[2]);
const account = createSampleAccount({ definitionName: 'email-marketing', seed: 7, size: { members } });
const list = account.list('lists', {}).slice(0, 1)[0];
if (list === undefined) throw new Error('the sample account has no list');
const texts: string[] = [];
for (let offset = 0; offset < members; offset += 1000) {
  const page = account.list('list_members', { list_id: list['id'] ?? null }).slice(offset, 1000);
  for (const record of page) texts.push(JSON.stringify(record));
}
process.stderr.write(
  `${texts.length} members, ${Math.round(texts.join('').length / texts.length)} bytes each\n`,
);

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
    if (entity === 'lists') {
      response.end(envelope((params.offset ?? 0) === 0 ? [JSON.stringify(list)] : []));
      return;
    }
    const offset = params.offset ?? 0;
    response.end(envelope(texts.slice(offset, offset + Math.min(params.count ?? 10, 1000))));
  });
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
