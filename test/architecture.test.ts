import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '..');

/** What a room may import besides itself: rooms, or single files of a room. Deny by default. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  core: [],
  definitions: ['core'],
  telemetry: ['core'],
  // What every HTTP client of this program needs; it knows no API.
  http: ['core'],
  settings: ['core', 'definitions'],
  pagination: ['core', 'definitions', 'sinks/partition.ts'],
  source: ['core', 'http', 'definitions', 'pagination', 'upstream'],
  // The third parties behind connectors: one answer or one failure for each call.
  upstream: ['core', 'http', 'definitions', 'sql/sqlite/lock.ts'],
  // Processes of this program, and the calls between them and their parent.
  child: ['core'],
  // What belongs to one user alone.
  files: ['core'],
  // Databases below every rule: what a statement, a transaction and a connection are. It knows nothing of what is
  // stored.
  sql: ['core', 'files'],
  sinks: ['core', 'definitions', 'files', 'sql'],
  search: [
    'core',
    'child',
    'http/or-aborted.ts',
    'http/start-deadline.ts',
    'http/take-slot.ts',
    'definitions',
    'sql',
    'sinks/decisions/stored-table.ts',
    'sinks/ledger/tables.ts',
    'sinks/sqlite/readers.ts',
    'sinks/sqlite/sink-error.ts',
  ],
  engine: [
    'core',
    'definitions',
    'pagination',
    'source/source.ts',
    'source/page-records.ts',
    'sinks/sink.ts',
    'sinks/lease.ts',
    'sinks/partition.ts',
    'sinks/run-report.ts',
    'sinks/deletes.ts',
    'sinks/stored-keys.ts',
    'sinks/drift.ts',
    'sinks/files.ts',
    'sinks/ledger-reader.ts',
  ],
  jobs: ['core', 'settings', 'engine'],
  monitor: ['core', 'settings', 'telemetry', 'jobs'],
  service: [
    'core',
    'child',
    'files',
    'sql',
    'http',
    'settings',
    'definitions',
    'source',
    'upstream',
    'search',
    'engine',
    'sinks',
  ],
  // Behind `Provider`, as any other third party would be.
  sample: ['core', 'definitions', 'service/provider.ts', 'service/api-error.ts'],
  export: ['core', 'settings', 'sinks'],
  // What is stored, put where warehouses read: it reads sinks, and writes none.
  publish: [
    'core',
    'child',
    'http/or-aborted.ts',
    'definitions',
    'telemetry',
    'settings',
    'export',
    'files',
    'sql',
    'sinks',
  ],
  // Of sinks the contracts and the registry: what a kind of sink is made of is its own affair.
  app: [
    'core',
    'definitions',
    'telemetry',
    'settings',
    'source',
    'engine',
    'jobs',
    'monitor',
    'publish',
    'sinks/acquire-errors.ts',
    'sinks/closed-files.ts',
    'sinks/compare-keys.ts',
    'sinks/copies.ts',
    'sinks/drift.ts',
    'sinks/files',
    'sinks/lease.ts',
    'sinks/ledger-reader.ts',
    'sinks/decisions/stored-table.ts',
    'sinks/record-reader.ts',
    'sinks/registry.ts',
    'sinks/repair.ts',
    'sinks/run-report.ts',
    'sinks/share-sinks.ts',
    'sinks/sink-access.ts',
    'sinks/sink.ts',
  ],
  // It parses, calls and prints: beyond the rooms that it calls, the shapes of what it prints, and pure functions. It
  // opens no sink.
  cli: [
    'core',
    'http',
    'definitions',
    'telemetry',
    'settings',
    'app',
    'export',
    'publish',
    'service',
    'sample',
    'search/process',
    'engine/estimate-calls.ts',
    'engine/plan-backfill.ts',
    'engine/prepare/canonical-json.ts',
    'engine/probe-page.ts',
    'engine/run-options.ts',
    'engine/chosen-entities.ts',
    'engine/try-listing.ts',
    'jobs/connect-redis.ts',
    'jobs/examine-redis.ts',
    'jobs/open-queues.ts',
    'jobs/worker-context.ts',
    'jobs/worker-state.ts',
    'monitor/listen-address.ts',
    'sinks/acquire-errors.ts',
    'sinks/closed-files.ts',
    'sinks/compare-keys.ts',
    'sinks/drift.ts',
    'sinks/files',
    'sinks/lease.ts',
    'sinks/ledger-reader.ts',
    'files',
    'sinks/record-reader.ts',
    'sinks/run-report.ts',
    'sinks/sqlite/readers.ts',
    'source/connector-origin.ts',
    'source/source.ts',
    'source/api/catalog-calls.ts',
    'source/api/open-administration.ts',
    'source/api/open-api-client.ts',
    'source/api/resolve-connector.ts',
    'source/api/search-call.ts',
  ],
  'main.ts': ['cli'],
  'library.ts': ['core', 'settings', 'sinks', 'export', 'app', 'library-shapes.ts'],
  'library-shapes.ts': ['core'],
};

/**
 * Each vendor library lives in one room, or in folders of one; a library that is not here may not be imported at all.
 */
const homes: Readonly<Record<string, readonly string[]>> = {
  'better-sqlite3': ['sql'],
  pg: ['sql'],
  hyparquet: ['publish'],
  'hyparquet-writer': ['publish'],
  '@duckdb/node-api': ['publish'],
  '@aws-sdk/client-s3': ['publish'],
  undici: ['http', 'source', 'upstream'],
  'p-retry': ['source'],
  'p-queue': ['http', 'source', 'upstream', 'search', 'service', 'jobs', 'sql'],
  'lossless-json': ['http'],
  yaml: ['definitions', 'publish'],
  fastify: ['service', 'monitor'],
  '@bull-board/api': ['monitor'],
  '@bull-board/api/bullMQAdapter': ['monitor'],
  '@bull-board/fastify': ['monitor'],
  'prom-client': ['telemetry'],
  bullmq: ['jobs', 'monitor'],
  ioredis: ['jobs'],
  commander: ['cli'],
  'cron-parser': ['settings'],
  re2js: ['definitions'],
  pino: ['telemetry'],
  zod: ['*'],
};

const commentLine = /^\s*(\/\/|\/\*|\*)/;

const sources = filesBelow('src').map(readSource);
const tests = filesBelow('test').map(readSource);

describe('the architecture', () => {
  it('knows every room', () => {
    expect([...new Set(sources.map(({ room }) => room))].filter((room) => !(room in allowed))).toEqual([]);
  });

  it('lets rooms import only what the table allows', () => {
    const forbidden = sources.flatMap(({ path, room, imports }) =>
      imports
        .filter((name) => name.startsWith('.'))
        .map((name) => relative(join(root, 'src'), resolve(root, path, '..', name)))
        .filter((target) => !mayImport(room, target))
        .map((target) => `${path} -> ${target}`),
    );
    expect(forbidden).toEqual([]);
  });

  it('keeps each vendor library in its room', () => {
    const forbidden = sources.flatMap(({ path, imports }) =>
      imports
        .filter((name) => !name.startsWith('.') && !name.startsWith('node:'))
        .filter((name) => !livesIn(homes[name], path))
        .map((name) => `${path} -> ${name}`),
    );
    expect(forbidden).toEqual([]);
  });

  it('does no input or output in core', () => {
    const used = sources.filter(({ room }) => room === 'core').flatMap(({ imports }) => imports);
    expect(used.filter((name) => name.startsWith('node:') && name !== 'node:util')).toEqual([]);
  });

  it('imports in one direction: no file leads back to itself, types included', () => {
    expect(circles(sources)).toEqual([]);
  });

  it('writes relative imports with their extension', () => {
    const bare = [...sources, ...tests].flatMap(({ path, imports }) =>
      imports
        .filter((name) => name.startsWith('.') && !name.endsWith('.ts'))
        .map((name) => `${path} -> ${name}`),
    );
    expect(bare).toEqual([]);
  });

  it('keeps comments within 120 columns', () => {
    const wide = [...sources, ...tests].flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, index) => {
        const isWide = commentLine.test(line) && line.length > 120 && line.trim().split(' ').length > 2;
        return isWide ? [`${path}:${index + 1}`] : [];
      }),
    );
    expect(wide).toEqual([]);
  });

  it('has no barrels, no default exports and no folders named by syntax', () => {
    const barrels = sources.filter(
      ({ path, text }) =>
        path.endsWith('/index.ts') ||
        /^export (\*|\{[^}]*\}) from /m.test(text) ||
        /^export default /m.test(text),
    );
    expect(barrels.map(({ path }) => path)).toEqual([]);
    const syntax = /\/(utils?|helpers?|common|types|interfaces|classes|managers?|services)\//;
    expect(sources.map(({ path }) => path).filter((path) => syntax.test(path))).toEqual([]);
  });

  it('prints only in the command line', () => {
    const printing = sources.filter(({ text }) => /\bconsole\.\w+\(|process\.std(out|err)[,.]/.test(text));
    expect(printing.map(({ path }) => path)).toEqual(['src/main.ts']);
  });
});

describe('the docs', () => {
  const documents = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', ...filesBelow('docs', '.md')];

  it.each(documents)('%s names only paths that exist', (document) => {
    const text = readFileSync(join(root, document), 'utf8');
    const quoted = [...text.matchAll(/(?<![\w/.-])((?:src|test|config|docs|bench|\.ci)\/[\w./-]*\w)/g)].map(
      ([, path = '']) => path,
    );
    const missing = quoted.filter((path) => !existsSync(join(root, path)) && !writtenByUsers.has(path));
    expect([...new Set(missing)]).toEqual([]);
  });
});

/** Paths that come into being on the user's machine. */
const writtenByUsers = new Set(['config/connector-sync.yaml']);

interface SourceFile {
  readonly path: string;
  readonly room: string;
  readonly text: string;
  readonly imports: readonly string[];
}

function readSource(path: string): SourceFile {
  const text = readFileSync(join(root, path), 'utf8');
  const found = text.matchAll(
    /(?:^|\n)(?:import|export)\s[^;'"]*?from\s+'([^']+)'|(?:^|\n)import\s+'([^']+)'|\bimport\('([^']+)'\)/g,
  );
  const imports = [...found].map(([, from, bare, dynamic]) => from ?? bare ?? dynamic ?? '');
  return { path, room: path.split('/')[1] ?? '', text, imports };
}

/** Files that lead to themselves through what they import, each circle once. */
function circles(files: readonly SourceFile[]): readonly string[] {
  const importsOf = new Map(
    files.map(({ path, imports }) => [
      path,
      imports.filter((name) => name.startsWith('.')).map((name) => join(path, '..', name)),
    ]),
  );
  const found: string[] = [];
  const isDone = new Map<string, boolean>();
  const follow = (path: string, way: readonly string[]): void => {
    if (isDone.get(path) === false) found.push([...way.slice(way.indexOf(path)), path].join(' -> '));
    if (isDone.has(path)) return;
    isDone.set(path, false);
    for (const next of importsOf.get(path) ?? []) follow(next, [...way, path]);
    isDone.set(path, true);
  };
  for (const path of importsOf.keys()) follow(path, []);
  return found;
}

function mayImport(room: string, target: string): boolean {
  const rules = allowed[room] ?? [];
  return (
    target.split('/')[0] === room ||
    rules.includes('*') ||
    rules.some((rule) => target === rule || (!rule.endsWith('.ts') && target.startsWith(`${rule}/`)))
  );
}

function livesIn(folders: readonly string[] | undefined, path: string): boolean {
  return folders?.some((one) => one === '*' || path.startsWith(`src/${one}/`)) === true;
}

function filesBelow(folder: string, extension = '.ts'): readonly string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(extension))
    .map((name) => `${folder}/${name}`)
    .sort();
}
