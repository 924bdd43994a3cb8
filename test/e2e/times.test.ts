import { describe, expect, it } from 'vitest';
import { formatProblem } from '../../src/core/problems.ts';
import type { JsonValue } from '../../src/core/json.ts';
import { parseDefinition } from '../../src/definitions/load-definitions.ts';
import { describedService, hostedAnswers, keyedDefinition } from '../support/described/described-service.ts';

const changes = (first: string): string =>
  keyedDefinition({
    entities: `
${first.includes('field') ? `settings: { start_date: { title: First day, default: '2020-05-06' } }` : ''}
entities:
  boxes:
    fields: { id: string, changed: string }
    key: [id]
    actions: { list: { params: { changed_since: string, cursor: string } } }
    pagination: { kind: pageToken, tokenParam: cursor, tokenKeys: [next] }
    incremental:
      kind: since
      field: changed
      format: '%d.%m.%Y %H:%M'
      sinceParam: changed_since
      sinceFormat: '%Y-%m-%d'
      lookbackMs: 60000
      ${first}`,
    requests: '{ boxes: { list: { path: /boxes, records: data, metadata: { next: next } } } }',
  });

/** Boxes by the day of their change. */
const boxes = new Map([
  ['2019-12-31', 'old'],
  ['2021-03-04', 'first'],
  ['2026-01-02', 'second'],
]);
const inTheirWay = (day: string): string => `${day.split('-').toReversed().join('.')} 10:11`;

/** The boxes since a day; without one those of its last thirty days. */
function boxesSince(since: string | null): readonly JsonValue[] {
  const from = since ?? '2025-12-31';
  return [...boxes].flatMap(([day, id]) => (day < from ? [] : [{ id, changed: inTheirWay(day) }]));
}

const asked = (requests: readonly { readonly path: string; readonly query: URLSearchParams }[]) =>
  requests.flatMap(({ path, query }) => (path === '/boxes' ? [query.get('changed_since')] : []));

async function boxService(first: string, settings = '') {
  return await describedService({
    definition: changes(first),
    credentials: { api_key: 'k' },
    settings,
    respond: ({ path, query }) =>
      path === '/me'
        ? { body: { id: 'a' } }
        : { body: { data: boxesSince(query.get('changed_since')), next: null } },
  });
}

describe('a service that shows its last thirty days unless asked for more', () => {
  it('is asked from the first day of the definition on, in full reads too, and then for what changed', async () => {
    const service = await boxService(`first: '2020-01-01'`);
    await service.sync();
    expect([...service.rows('boxes').keys()].toSorted()).toEqual(['["first"]', '["second"]']);
    await service.sync();
    await service.sync('--full');
    expect(asked(service.requests)).toEqual(['2020-01-01', '2026-01-02', '2020-01-01']);
  });

  it('is not asked for changes before the first day, and shows what it likes without one', async () => {
    const service = await boxService(`first: '2026-01-15'`);
    boxes.set('2026-01-15', 'third');
    await service.sync();
    await service.sync();
    boxes.delete('2026-01-15');
    expect(asked(service.requests)).toEqual(['2026-01-15', '2026-01-15']);
    const plain = await boxService('');
    await plain.sync();
    expect(asked(plain.requests)).toEqual([null]);
    expect(plain.rows('boxes').size).toBe(1);
  });

  it('takes the first day from a setting, and reads in full again from another one', async () => {
    const first = 'first: { field: start_date }';
    const service = await boxService(first);
    await service.sync();
    service.signIn({ api_key: 'k' }, `    settings: { start_date: '2019-01-01T00:00:00Z' }\n`);
    await service.sync();
    await service.sync();
    expect(asked(service.requests)).toEqual(['2020-05-06', '2019-01-01', '2026-01-02']);
    expect(service.rows('boxes').size).toBe(3);
    service.signIn({ api_key: 'k' }, `    settings: { start_date: '2026-01-01' }\n`);
    expect((await service.cli('sync')).code).toBe(0);
    // Older ones may be there all the same.
    expect(service.rows('boxes').size).toBe(3);
    service.signIn({ api_key: 'k' }, `    settings: { start_date: yesterday }\n`);
    const refused = await service.cli('check');
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('settings.start_date: expected a time such as 2024-01-01');
  });

  it('is asked in the same way through an API', async () => {
    const since: (JsonValue | undefined)[] = [];
    const service = await describedService({
      definition: changes('first: { field: start_date }'),
      respond: hostedAnswers(({ params }) => {
        since.push(params['changed_since']);
        const text = params['changed_since'];
        return {
          result: boxesSince(typeof text === 'string' ? text : null),
          connector_metadata: { next: null },
        };
      }),
    });
    await service.sync();
    await service.sync();
    expect(since).toEqual(['2020-05-06', '2026-01-02']);
  });
});

/** The problems of the definition above with one change, and its hash where there are none. */
function changed(change: string, to: string) {
  const text = `name: d\ntitle: D\nid: 3f2a6c8e-5b7d-4e1f-9a0c-2d4e6f8a1b3c\nrateLimit: { requestsPerSecond: 1, concurrency: 1 }\n${changes('first: { field: start_date }')}`;
  if (!text.includes(change)) throw new Error(`nothing to change: ${change}`);
  const made = text.replace(change, to).replaceAll('$ORIGIN', 'https://api.example');
  return parseDefinition('d.yaml', made).problems.map(formatProblem).join('\n');
}

describe('a definition with times', () => {
  it.each([
    ['%d.%m.%Y %H:%M', '%d.%n.%Y', 'incremental.format: expected iso, unix, unixMs or a pattern of %Y'],
    ['%Y-%m-%d', '%Y-%d', 'incremental.sinceFormat: expected %m beside the others'],
    [
      'changed_since: string',
      'changed_since: integer',
      'sinceParam: expected a list parameter of type string',
    ],
    ['changed: string', 'changed: integer', 'expected a field of type string for format %d.%m.%Y %H:%M'],
    ['{ field: start_date }', '2020', 'incremental.first: expected'],
    ['{ field: start_date }', 'soon', 'incremental.first: expected a time such as 2024-01-01'],
    ['{ field: start_date }', '{ field: start }', 'first.field: no such setting: "start"'],
    ['2020-05-06', 'once', 'settings.start_date.default: expected a time such as 2024-01-01, got "once"'],
    [`default: '2020-05-06'`, 'secret: true', 'first.field: expected a setting that is not secret'],
  ])('has the problem: %s → %s', (change, to, expected) => {
    expect(changed(change, to)).toContain(expected);
  });

  it('may have times that are numbers of digits', () => {
    expect(changed('%d.%m.%Y %H:%M', '%Y%m%d%H%M')).toBe('');
  });
});
