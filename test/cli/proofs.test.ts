import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { startPostgres } from '../support/postgres.ts';
import { callCli, jsonLines } from '../support/run-cli.ts';
import { startThirdParty, type ReceivedRequest } from '../support/third-party/start-third-party.ts';

interface Box {
  readonly id: string;
  readonly shelf_id: string;
  readonly title: string;
}

/** What the service does otherwise than the definition says; absent: nothing. */
interface Bent {
  /** Pages whatever was asked for. */
  readonly page?: 'first' | 'from-zero';
  readonly mostPerPage?: number;
  readonly total?: number;
  readonly hasArchived?: true;
  readonly missingShelf?: string;
  /** Boxes of each shelf have the same ids. */
  readonly repeatsIds?: true;
}

const shelfIds = Array.from({ length: 12 }, (_, index) => `s${index + 1}`);

function answer({ path, query }: ReceivedRequest, bent: Bent, shelves: readonly string[]) {
  if (path === '/me') return { body: { id: 'me' } };
  if (path === '/shelves') {
    const isAll = query.get('archived') === 'true' && bent.hasArchived === true;
    const all = (isAll ? [...shelves, 'hidden'] : shelves).map((id) => ({ id, title: `Shelf ${id}` }));
    const size = Math.min(Number(query.get('per_page')), bent.mostPerPage ?? 100);
    const number = bent.page === 'first' ? 1 : Number(query.get('page'));
    if (number === 0 && bent.page !== 'from-zero') return { status: 400, body: { error: 'page is too low' } };
    const at = (number - (bent.page === 'from-zero' ? 0 : 1)) * size;
    return { body: { data: all.slice(at, at + size), total: bent.total ?? all.length } };
  }
  const shelf = /^\/shelves\/(\w+)\/boxes$/.exec(path)?.[1] ?? '';
  if (shelf === bent.missingShelf) return { status: 404, body: { error: 'no such shelf' } };
  const boxes: readonly Box[] = Array.from({ length: 6 }, (_, index) => {
    const id = bent.repeatsIds === true ? `b${index}` : `${shelf}-b${index}`;
    return { id, shelf_id: shelf, title: `Box ${index} of ${shelf}` };
  });
  return { body: { data: boxes } };
}

interface Guessed {
  readonly shelves?: string;
  readonly boxes?: string;
  readonly boxKey?: string;
}

const definitionText = (
  origin: string,
  { shelves, boxes, boxKey = '[shelf_id, id]' }: Guessed,
): string => `name: store
title: Store
id: 7c0a3f6e-1111-4d0c-8a2b-00000000000a
rateLimit: { requestsPerSecond: 1000, concurrency: 4 }
credentials: [{ title: Key, fields: { api_key: {} } }]
entities:
  shelves:
    fields: { id: string, title: string }
    key: [id] # as the file says
    actions: { list: { params: { page: integer, per_page: integer, archived: boolean } } }
    pagination: { kind: page, pageParam: page, first: 1, sizeParam: per_page, maxSize: 100, totalKeys: [total] }
${shelves ?? ''}
  boxes:
    fields: { id: string, shelf_id: string, title: string }
    key: ${boxKey}
    actions: { list: { params: { shelf_id: { type: string, required: true } } } }
    pagination: { kind: single }
    parents: [{ entity: shelves, params: { shelf_id: id }, inject: { shelf_id: shelf_id } }]
${boxes ?? ''}
upstream:
  baseUrl: ${origin}
  auth: { Key: { kind: bearer, token: { field: api_key } } }
  check: { path: /me, identity: id }
  limits: { concurrency: 4, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
  entities:
    shelves: { list: { path: /shelves, records: data, metadata: { total: total } } }
    boxes: { list: { path: '/shelves/{shelf_id}/boxes', records: data } }
`;

/** A service, its definition in `store.yaml`, and the program. */
async function openStore(
  folder: string,
  bent: Bent,
  guessed: Guessed,
  sink = '{ type: sqlite, path: ./main.db }',
) {
  const shelves = [...shelfIds];
  const { origin, port } = await startThirdParty((request) => answer(request, bent, shelves));
  const host = `127.0.0.1:${port}`;
  mkdirSync(join(folder, 'defs'));
  const file = join(folder, 'defs', 'store.yaml');
  writeFileSync(file, definitionText(origin, guessed));
  writeFileSync(
    join(folder, 'sync.yaml'),
    `definitions: [./defs]
allowUpstreamHosts: ['${host}']
sinks: { main: ${sink} }
connectors: { mine: { definition: store, credentials: { api_key: "\${KEY}" }, sink: main } }
`,
  );
  const run = async (...args: readonly string[]) => await callCli(args, { cwd: folder, env: { KEY: 'key' } });
  return {
    shelves,
    file,
    edit: (from: string, to: string) => writeFileSync(file, readFileSync(file, 'utf8').replace(from, to)),
    text: () => readFileSync(file, 'utf8'),
    prove: (entity: string) =>
      callCli(['definitions', 'try', 'defs/store.yaml', entity, '--prove', '--allow-upstream-host', host], {
        cwd: folder,
        env: { CONNECTOR_SYNC_CREDENTIAL_API_KEY: 'key' },
      }),
    check: async () => (await run('definitions', 'check', 'defs/store.yaml')).stdout,
    sync: () => run('sync', '--config', 'sync.yaml'),
    run,
  };
}

const ofShelves = '    unproven: [key, paging, hidden] # by the import';
const ofBoxes = '    unproven: [key, parent]';

describe('definitions try --prove', () => {
  it('writes what it has proven into the file, and keeps all other lines', async ({ folder }) => {
    const store = await openStore(folder, {}, { shelves: ofShelves, boxes: ofBoxes });
    const before = store.text();
    const shelves = await store.prove('shelves');
    expect(shelves.stdout + shelves.stderr).toContain('✓ key: 12 rows, no key twice');
    expect(shelves).toMatchObject({ code: 0, stdout: expect.stringContaining('✓ paging: ') as string });
    expect(shelves.stdout).toContain('✓ hidden: archived: no value shows more');
    const boxes = await store.prove('boxes');
    expect(boxes.stdout).toMatch(/✓ key: .*\n✓ parent: 3 parents answer\n/);
    expect(boxes.code).toBe(0);
    const added = store
      .text()
      .split('\n')
      .filter((line) => !before.split('\n').includes(line));
    expect(added).toEqual([
      expect.stringMatching(
        /^ {4}proven: \{ key: \{ on: 2\d{3}-\d\d-\d\d, rows: 12, request: \S+ \}, paging: .*hidden: /,
      ),
      expect.stringMatching(/^ {4}proven: \{ key: \{ on: \S+ rows: 18, parents: 3, request: .* parent: /),
    ]);
    expect(await store.check()).toBe('✓ defs/store.yaml: store (Store), 2 entities\n');
    expect((await store.sync()).code).toBe(0);
    expect((await store.prove('shelves')).stdout).toContain('No guess is open.');
  });

  it('asks again after an edit of what the proof depends on', async ({ folder }) => {
    const store = await openStore(folder, {}, { boxes: ofBoxes });
    await store.prove('boxes');
    store.edit("path: '/shelves/{shelf_id}/boxes'", "path: '/shelves/{shelf_id}/boxes/'");
    expect(await store.check()).toMatch(
      /^ {2}boxes: not proven: key \(its request was edited after 2\d{3}-\d\d-\d\d\), parent \(/m,
    );
    store.edit('boxes/', 'boxes');
    store.edit("'/shelves/{shelf_id}/boxes'", "'/shelves/{shelf_id}/boxes'");
    expect(await store.check()).toContain('✓ defs/store.yaml');
  });

  const wrong: readonly (readonly [
    what: string,
    entity: string,
    bent: Bent,
    guessed: Guessed,
    finding: RegExp,
  ])[] = [
    [
      'a key that is the same below two parents',
      'boxes',
      { repeatsIds: true },
      { boxes: ofBoxes, boxKey: '[id]' },
      /✗ key: .*b0.* came below two parents: add .*shelf_id/,
    ],
    ['pages that repeat the first one', 'shelves', { page: 'first' }, { shelves: ofShelves }, /✗ paging: /],
    [
      'a first page in front of the first',
      'shelves',
      { page: 'from-zero' },
      { shelves: ofShelves },
      /✗ paging: /,
    ],
    ['a total that counts something else', 'shelves', { total: 500 }, { shelves: ofShelves }, /✗ paging: /],
    ['a page that is cut', 'shelves', { mostPerPage: 5 }, { shelves: ofShelves }, /✗ paging: .*5/],
    [
      'records that a flag shows',
      'shelves',
      { hasArchived: true },
      { shelves: ofShelves },
      /✗ hidden: archived: true shows records/,
    ],
    ['a parent without a listing', 'boxes', { missingShelf: 's2' }, { boxes: ofBoxes }, /✗ parent: .*s2/],
  ];

  it.for(wrong)('finds %s', async ([, entity, bent, guessed, finding], { folder }) => {
    const store = await openStore(folder, bent, guessed);
    const { code, stdout, stderr } = await store.prove(entity);
    expect(stdout + stderr).toMatch(finding);
    expect(code).toBe(3);
    const name = /✗ (\w+)/.exec(finding.source)?.[1] ?? '';
    expect(store.text()).not.toMatch(new RegExp(`proven:.* ${name}: \\{ on`));
  });

  it('leaves open what too few rows and one parent cannot show', async ({ folder }) => {
    const store = await openStore(folder, {}, { shelves: ofShelves, boxes: ofBoxes });
    store.shelves.splice(1);
    const { code, stdout } = await store.prove('shelves');
    expect(stdout).toContain('! key: too few rows came (1 of at least 10)');
    expect(stdout).toContain('! paging: no second page came');
    expect(code).toBe(3);
    expect((await store.prove('boxes')).stdout).toContain(
      '! parent: found too few parents (1 of at least 2)',
    );
  });
});

describe('a sync with guesses', () => {
  // Proves promise 3.4
  it('leaves out an entity whose key is open, and those below it, until a person answers for it', async ({
    folder,
  }) => {
    const store = await openStore(folder, {}, { shelves: ofShelves });
    const { code, stdout } = await store.sync();
    expect(code).toBe(3);
    expect(stdout).toMatch(/^ +shelves .*not read, the key is not proven/m);
    expect(stdout).toMatch(/^ +boxes .*not read, the key is not proven/m);
    expect(stdout).toContain('the key of shelves is a guess that nothing has proven');
    const [status] = jsonLines(await store.run('status', '--json', '--config', 'sync.yaml'));
    expect(JSON.stringify(status)).toContain('rests on guesses');
    store.edit(ofShelves, '    unproven: [key]\n    accept: [key]');
    expect((await store.sync()).code).toBe(0);
  });

  const sinks = {
    sqlite: '{ type: sqlite, path: ./main.db }',
    jsonl: '{ type: jsonl, directory: ./lines }',
    postgres: null,
  };
  // Proves promise 3.4
  it.for(Object.entries(sinks))(
    'deletes nothing while its paging is open, in %s',
    async ([, of], { folder }) => {
      await using postgres = of === null ? await startPostgres() : null;
      const sink = of ?? `{ type: postgres, url: "${postgres?.url}", schema: proofs }`;
      const store = await openStore(folder, {}, { shelves: '    unproven: [paging]' }, sink);
      expect((await store.sync()).code).toBe(0);
      const deletedAfter = async (): Promise<unknown> => {
        const { code, stdout } = await store.run('sync', '--full', '--json', '--config', 'sync.yaml');
        expect(code).toBe(0);
        return stdout
          .split('\n')
          .flatMap((line) => /"entity":"shelves".*?"deleted":(\d+)/.exec(line)?.[1] ?? [])[0];
      };
      store.shelves.pop();
      expect(await deletedAfter()).toBe('0');
      expect(await deletedAfter()).toBe('0');
      const shown = await store.run('status', '--config', 'sync.yaml');
      expect(shown.stdout).toContain('guesses that nothing has proven (paging)');
      store.edit('    unproven: [paging]', '    unproven: [paging]\n    accept: [paging]');
      expect(await deletedAfter()).toBe('1');
    },
  );
});
