import { expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { successText } from '../support/hostile/replies.ts';
import { useHostedRuns } from '../support/hosted-runs.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { allSampleSinks } from '../support/all-sample-sinks.ts';
import type { SampleSinkType } from '../support/sample-sinks.ts';
import { text } from '../support/service/served-api.ts';
import { entityNamed } from '../support/sync-once.ts';
import { triedSinks } from '../support/trials.ts';

const mailing = builtInDefinition('email-marketing');
const hosted = useHostedRuns();

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

/**
 * One service, asked twice: a body that holds both the deepest record and the largest integers is asked for in smaller
 * pages.
 */
async function syncPoison(type: SampleSinkType) {
  const { sync } = await hosted.open(mailing, ({ entity, params }) => {
    const rows = entity === 'lists' ? [big] : [...good, ...Object.values(odd), ...bad];
    return successText(params['offset'] === 0 ? `[${rows.join(',')}]` : '[]');
  });
  const sink = allSampleSinks[type].options(hosted.folder());
  return await sync(['automations', 'lists'], { connector: 'mailing', sink, clock: systemClock });
}

it.each(triedSinks)(
  'poison records end in the right place of %s, and the good ones are all stored',
  async (type) => {
    const report = await syncPoison(type);
    // The confirming call finds nothing behind one page of everything: the walk is set aside, and every record is in.
    const automations = report.entities.find(({ entity }) => entity === 'automations')?.counts;
    expect(automations?.quarantined).toBeGreaterThanOrEqual(bad.length);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();

    const stored = allSampleSinks[type].rows(
      hosted.folder(),
      'mailing',
      entityNamed(mailing, 'automations').table,
    );
    const byId = new Map([...stored.values()].map((row) => [text(row.columns['id']), row]));
    expect([...byId.keys()].filter((id) => id.startsWith('good-'))).toHaveLength(good.length);
    expect(byId.size).toBe(good.length + Object.keys(odd).length);
    const extraOf = (id: string): JsonObject => byId.get(id)?.extra ?? {};
    expect(Object.keys(extraOf('proto'))).toEqual(['__proto__', 'constructor']);
    expect(extraOf('surrogate')).toEqual({ status: '\ud800' });
    expect(byId.get('nul')?.columns['status']).toBe('a\u0000b');
    expect(extraOf('case')).toEqual({ ID: 'other', Status: 'x' });
    expect(Object.keys(extraOf('wide'))).toHaveLength(3000);
    expect(extraOf('names')).toMatchObject({ '': 2, sqlite_x: 3, _seq: 4, _op: 'delete' });
    expect(byId.get('long')?.columns['status']).toHaveLength(10 * 1024 * 1024);
    expect(byId.get('twice')?.columns['status']).toBe('second');
    expect(extraOf('types')).toEqual({ emails_sent: 'many', settings: [1], create_time: { a: 1 } });
  },
);
