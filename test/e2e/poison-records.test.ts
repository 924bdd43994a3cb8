import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { successText } from '../support/hostile/replies.ts';
import { startHostileServer } from '../support/hostile-server.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { chosenEntities, syncOnce } from '../support/sync-once.ts';

const mailing = builtInDefinition('email-marketing');
let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

/** Records as text: some of them cannot be written down in any other way. */
const deep = 100_000;
const good = Array.from({ length: 2000 }, (_, index) => `{"id":"good-${index}"}`);
const odd = {
  proto: '{"id":"proto","__proto__":{"polluted":true},"constructor":1}',
  surrogate: String.raw`{"id":"surrogate","status":"\ud800"}`,
  nul: String.raw`{"id":"nul","status":"a\u0000b"}`,
  case: '{"id":"case","ID":"other","Status":"x","status":"y"}',
  wide: `{"id":"wide",${Array.from({ length: 3000 }, (_, index) => `"field ${index}":${index}`).join(',')}}`,
  names: String.raw`{"id":"names","\"; DROP TABLE mailing__automations; --":1,"":2,"sqlite_x":3,"_seq":4,"_op":"delete"}`,
  long: `{"id":"long","status":"${'x'.repeat(10 * 1024 * 1024)}"}`,
  twice: '{"id":"twice","status":"first"},{"id":"twice","status":"second"}',
  types: '{"id":"types","emails_sent":"many","settings":[1],"create_time":{"a":1}}',
};
const bad = [
  `{"id":"deep","settings":${'['.repeat(deep)}${']'.repeat(deep)}}`,
  '{"status":"no id"}',
  '{"id":null}',
  '{"id":7}',
  'null',
  '"text"',
  '[1,2]',
];
const big = '{"id":"big","emails_sent":9007199254740993,"settings":{"n":12345678901234567890}}';

/** One service, asked twice: a body that holds both the deepest record and the largest integers is asked for in smaller pages. */
async function syncPoison(type: 'sqlite' | 'jsonl') {
  await using server = await startHostileServer({
    connectors: [{ id: 'c1', name: 'One', definitionId: mailing.id }],
    respond: ({ entity, params }) => {
      const rows = entity === 'lists' ? [big] : [...good, ...Object.values(odd), ...bad];
      return successText(params['offset'] === 0 ? `[${rows.join(',')}]` : '[]');
    },
  });
  return await syncOnce({
    baseUrl: server.baseUrl,
    definition: mailing,
    connectorId: 'c1',
    connector: 'mailing',
    sink: sampleSinks[type].options(folder),
    entities: chosenEntities(mailing, ['automations', 'lists']),
  });
}

it.each(['sqlite', 'jsonl'] as const)(
  'poison records end in the right place of %s, and the good ones are all stored',
  async (type) => {
    const report = await syncPoison(type);
    // The confirming call finds nothing behind one page of everything: the walk is set aside, and every record is in.
    const automations = report.entities.find(({ entity }) => entity === 'automations')?.counts;
    expect(automations?.quarantined).toBeGreaterThanOrEqual(bad.length);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();

    const lines = type === 'jsonl' ? readLines('automations') : readTable('mailing__automations');
    const byId = new Map(lines.map((row) => [row['id'], row]));
    expect([...byId.keys()].filter((id) => String(id).startsWith('good-'))).toHaveLength(good.length);
    expect(byId.size).toBe(good.length + Object.keys(odd).length);
    const extraOf = (id: string) => parsed(byId.get(id)?.['_extra']);
    expect(Object.keys(extraOf('proto'))).toEqual(['__proto__', 'constructor']);
    expect(extraOf('surrogate')).toEqual({ status: '\ud800' });
    expect(byId.get('nul')?.['status']).toBe('a\u0000b');
    expect(extraOf('case')).toEqual({ ID: 'other', Status: 'x' });
    expect(Object.keys(extraOf('wide'))).toHaveLength(3000);
    expect(extraOf('names')).toMatchObject({ '': 2, sqlite_x: 3, _seq: 4, _op: 'delete' });
    expect(String(byId.get('long')?.['status'])).toHaveLength(10 * 1024 * 1024);
    expect(byId.get('twice')?.['status']).toBe('second');
    expect(extraOf('types')).toEqual({ emails_sent: 'many', settings: [1], create_time: { a: 1 } });
  },
);

function parsed(value: unknown): Record<string, unknown> {
  return (typeof value === 'string' ? JSON.parse(value) : value) as Record<string, unknown>;
}

function readTable(name: string): Record<string, unknown>[] {
  const db = new Database(path.join(folder, 'test.db'), { readonly: true });
  try {
    return db.prepare(`SELECT * FROM ${name}`).all() as Record<string, unknown>[];
  } finally {
    db.close();
  }
}

function readLines(entity: string): Record<string, unknown>[] {
  const home = path.join(folder, 'lake', 'mailing', entity);
  return readdirSync(home)
    .flatMap((file) => readFileSync(path.join(home, file), 'utf8').split('\n').filter(Boolean))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
