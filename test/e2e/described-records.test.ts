import { describe, expect } from 'vitest';
import {
  describedService,
  hostedAnswers,
  keyedDefinition,
  keyedService,
} from '../support/described/described-service.ts';
import { it } from '../support/it.ts';
import type { DescribedService } from '../support/described/described-service.ts';
import { problemsIn } from '../support/definitions/changed-definition.ts';

const single = '{ kind: single }';

/** The columns of all rows of an entity. */
const columns = (service: DescribedService, entity: string) =>
  [...service.rows(entity)]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([, row]) => row.columns);

/** A definition of one account that has settings beside its key. */
const withSettings = (settings: string, entities: string, requests: string): string =>
  keyedDefinition({ entities: `settings: ${settings}\nentities:\n${entities}`, requests });

const colors = (each: string, more = ''): string => `
  pens:
    fields: { color: string, id: integer, name: string }
    key: [color, id]
    actions: { list: { params: { color: { type: string, required: true } } } }
    pagination: ${single}
    each: ${each}
    inject: { color: color }${more}`;
const pens = "{ pens: { list: { path: /pens, records: '' } } }";

describe('listings by a fixed list of values', () => {
  const penOf = (color: string | null) => ({ body: [{ id: 1, name: `a ${color} pen` }] });

  it('are read one by one, and the value is part of a key that they share', async () => {
    const service = await keyedService({
      entities: `entities:${colors('{ color: [red, blue] }')}`,
      requests: pens,
      respond: ({ query }) => penOf(query.get('color')),
    });
    await service.sync();
    expect(columns(service, 'pens')).toEqual([
      { color: 'blue', id: 1, name: 'a blue pen' },
      { color: 'red', id: 1, name: 'a red pen' },
    ]);
  });

  it('that share a key without the value are a finding, and no row stands for both', async () => {
    const service = await keyedService({
      entities: `entities:${colors('{ color: [red, blue] }').replace('key: [color, id]', 'key: [id]')}`,
      requests: pens,
      respond: ({ query }) => penOf(query.get('color')),
    });
    const result = await service.cli('sync');
    expect(result.stdout).toContain('part missing');
    expect(result.stdout + result.stderr).toContain(
      'records of one key with different content in several listings',
    );
  });

  it('are those of each set of values where there are several lists', async () => {
    const service = await keyedService({
      entities: `entities:${colors('{ color: [red, blue], size: [1, 2] }')
        .replace('required: true }', 'required: true }, size: integer')
        .replace('id: integer', 'id: integer, size: integer')
        .replace('[color, id]', '[color, size, id]')
        .replace('{ color: color }', '{ color: color, size: size }')}`,
      requests: pens,
      respond: ({ query }) => penOf(query.get('color')),
    });
    await service.sync();
    expect([...service.rows('pens').keys()]).toHaveLength(4);
  });

  it('lie below each record of a parent, too', async () => {
    const service = await keyedService({
      entities: `entities:
  boxes: { fields: { id: string }, key: [id], actions: { list: {} }, pagination: ${single} }${colors(
    '{ color: [red, blue] }',
  )
    .replace('fields: {', 'fields: { box: string,')
    .replace('[color, id]', '[box, color, id]')
    .replace('required: true }', 'required: true }, box: { type: string, required: true }')}
    parents: [{ entity: boxes, params: { box: id }, inject: { box: box } }]`,
      requests:
        "{ boxes: { list: { path: /boxes, records: '' } }, pens: { list: { path: '/boxes/{box}', records: '' } } }",
      respond: ({ path, query }) =>
        path === '/boxes' ? { body: [{ id: 'a' }, { id: 'b' }] } : penOf(query.get('color')),
    });
    await service.sync();
    expect(columns(service, 'pens').map(({ box, color }) => [box, color])).toEqual([
      ['a', 'blue'],
      ['a', 'red'],
      ['b', 'blue'],
      ['b', 'red'],
    ]);
  });

  it('come from a setting, and another value of it is another account', async () => {
    const service = await describedService({
      definition: withSettings('{ colors: { title: Colors } }', colors('{ color: { field: colors } }'), pens),
      credentials: { api_key: 'k' },
      settings: '    settings: { colors: "red, blue" }',
      respond: ({ path, query }) => (path === '/me' ? { body: { id: 'a' } } : penOf(query.get('color'))),
    });
    await service.sync();
    expect(columns(service, 'pens').map(({ color }) => color)).toEqual(['blue', 'red']);
    service.signIn({ api_key: 'k' }, '    settings: { colors: "red" }');
    const refused = await service.cli('sync');
    expect(refused.code).not.toBe(0);
    expect(refused.stdout + refused.stderr).toContain('colors=red');
    expect(columns(service, 'pens')).toHaveLength(2);
  });

  it('that a setting names and the parameter does not take are refused, and nothing is read', async () => {
    const text = colors('{ color: { field: colors } }').replace(
      '{ type: string, required: true }',
      '{ type: string, enum: [red, blue] }',
    );
    const service = await describedService({
      definition: withSettings('{ colors: { title: Colors } }', text, pens),
      credentials: { api_key: 'k' },
      settings: '    settings: { colors: "red,green" }',
      respond: ({ path, query }) => (path === '/me' ? { body: { id: 'a' } } : penOf(query.get('color'))),
    });
    const refused = await service.cli('sync');
    expect(refused.code).not.toBe(0);
    expect(refused.stdout + refused.stderr).toContain('expected one of red, blue, got "green"');
    expect(service.requests.filter(({ path }) => path === '/pens')).toEqual([]);
  });

  it('that a setting without a value names are not read through an API, which has no settings', async () => {
    const service = await describedService({
      definition: withSettings('{ colors: { title: Colors } }', colors('{ color: { field: colors } }'), pens),
      respond: hostedAnswers(() => ({ result: [], connector_metadata: {} })),
    });
    const refused = await service.cli('sync');
    expect(refused.code).not.toBe(0);
    expect(refused.stdout + refused.stderr).toContain('needs the setting colors, which has no value');
  });

  it('are tried by their first value, or by the one that is given', async () => {
    const service = await keyedService({
      entities: `entities:${colors('{ color: [red, blue] }')}`,
      requests: pens,
      respond: ({ query }) => penOf(query.get('color')),
    });
    const first = await service.cli('definitions', 'try', 'described', 'pens', '--connector', 'mine');
    expect(first.stdout).toContain('a red pen');
    const blue = await service.cli(
      'definitions',
      'try',
      'described',
      'pens',
      '--connector',
      'mine',
      '--param',
      'color=blue',
    );
    expect(blue.stdout).toContain('a blue pen');
  });
});

describe('records of one kind', () => {
  const items = [
    { id: '1', state: 'open', level: 1, meta: { team: { name: 'red' } }, hidden: false },
    { id: '2', state: 'closed', level: 1, meta: { team: { name: 'red' } }, hidden: false },
    { id: '3', state: 'open', level: 2, meta: { team: { name: 'blue' } }, hidden: false },
    { id: '4', state: 'open', level: 1, meta: { team: { name: 'red' } }, hidden: true },
    { id: '5', state: 'open', level: 1, hidden: false },
  ];
  const entities = (only: string): string => `
  items:
    fields: { id: string, state: string, level: integer, meta: object, hidden: boolean }
    key: [id]
    actions: { list: {} }
    pagination: ${single}
    only: ${only}`;
  const requests = "{ items: { list: { path: /items, records: '' } } }";

  it.each([
    ['{ field: state, value: open }', ['1', '3', '4', '5']],
    ['{ field: level, value: 1 }', ['1', '2', '4', '5']],
    ['{ field: hidden, value: false }', ['1', '2', '3', '5']],
    ['{ field: meta.team.name, value: red }', ['1', '2', '4']],
    ['{ field: meta.team.name, value: red, not: true }', ['3', '5']],
    ['{ field: id, values: ["1", "5"] }', ['1', '5']],
    ['{ field: id, values: ["1", "5"], not: true }', ['2', '3', '4']],
    [
      '[{ field: state, value: open }, { field: level, value: 1 }, { field: hidden, value: true, not: true }]',
      ['1', '5'],
    ],
  ])('are those that meet %s', async (only, ids) => {
    const service = await keyedService({
      entities: `entities:${entities(only)}`,
      requests,
      respond: () => ({ body: items }),
    });
    const report = await service.sync();
    expect(columns(service, 'items').map(({ id }) => id)).toEqual(ids);
    expect(report).toMatchObject({ entities: [{ counts: { filtered: items.length - ids.length } }] });
    // The same bytes again: nothing that is filtered is taken for stored.
    await service.sync();
    expect(columns(service, 'items').map(({ id }) => id)).toEqual(ids);
  });

  it('are chosen by a setting, as text or as number, which belongs to the account', async () => {
    const only = '[{ field: meta.team.name, setting: team }, { field: level, setting: level }]';
    const service = await describedService({
      definition: withSettings(
        '{ team: { title: Team }, level: { title: Level, default: "1" } }',
        entities(only),
        requests,
      ),
      credentials: { api_key: 'k' },
      settings: '    settings: { team: red }',
      respond: ({ path }) => ({ body: path === '/me' ? { id: 'a' } : items }),
    });
    await service.sync();
    expect(columns(service, 'items').map(({ id }) => id)).toEqual(['1', '2', '4']);
    service.signIn({ api_key: 'k' }, '    settings: { team: blue }');
    expect((await service.cli('sync')).code).not.toBe(0);
    expect(columns(service, 'items')).toHaveLength(3);
  });
});

describe('fields from inside of a record', () => {
  it('are a key, and a value for other listings; another value of that name stays', async () => {
    const service = await keyedService({
      entities: `entities:
  boxes:
    fields: { id: string, meta: object }
    key: [id]
    at: { id: meta.id }
    actions: { list: {} }
    pagination: ${single}
  labels:
    fields: { box: string, code: string }
    key: [box, code]
    actions: { list: { params: { box: { type: string, required: true } } } }
    pagination: ${single}
    parents: [{ entity: boxes, params: { box: id }, inject: { box: box } }]`,
      requests:
        "{ boxes: { list: { path: /boxes, records: '' } }, labels: { list: { path: '/boxes/{box}', records: '' } } }",
      respond: ({ path }) =>
        path === '/boxes'
          ? { body: [{ id: 7, meta: { id: 'b1' } }, { meta: { id: 'b2' } }] }
          : { body: [{ code: 'x' }] },
    });
    await service.sync();
    const rows = [...service.rows('boxes').values()];
    expect(rows.map((row) => row.columns['id'])).toEqual(['b1', 'b2']);
    expect(JSON.stringify(rows[0])).toContain('id_in_record');
    expect(columns(service, 'labels').map(({ box }) => box)).toEqual(['b1', 'b2']);
  });

  it('that lack the value of their key go to quarantine', async () => {
    const service = await keyedService({
      entities: `entities:
  boxes: { fields: { id: string, meta: object }, key: [id], at: { id: meta.id }, actions: { list: {} }, pagination: ${single} }`,
      requests: "{ boxes: { list: { path: /boxes, records: '' } } }",
      respond: () => ({ body: [{ meta: { id: 'b1' } }, { meta: {} }] }),
    });
    await service.cli('sync');
    expect(columns(service, 'boxes').map(({ id }) => id)).toEqual(['b1']);
    expect(service.files().join()).toContain('the record has no id, which is part of its key');
  });
});

describe('a part of a value of the parent', () => {
  it('asks for the listing, and a text without it leads to none', async () => {
    const service = await keyedService({
      entities: `entities:
  boxes: { fields: { id: string, links: object }, key: [id], actions: { list: {} }, pagination: ${single} }
  labels:
    fields: { box: string, code: string }
    key: [box, code]
    actions: { list: { params: { box: { type: string, required: true } } } }
    pagination: ${single}
    parents: [{ entity: boxes, params: { box: { path: links.self, split: '/', part: 2 } }, inject: { box: box } }]`,
      requests:
        "{ boxes: { list: { path: /boxes, records: '' } }, labels: { list: { path: '/of/{box}', records: '' } } }",
      respond: ({ path }) =>
        path === '/boxes'
          ? {
              body: [
                { id: 'a', links: { self: '/boxes/17' } },
                { id: 'b', links: { self: 'none' } },
              ],
            }
          : { body: [{ code: 'x' }] },
    });
    await service.sync();
    expect(columns(service, 'labels')).toEqual([{ box: '17', code: 'x' }]);
  });
});

describe('records in other shapes than a list', () => {
  const read = async (records: string, body: unknown) => {
    const service = await keyedService({
      entities: `entities:
  things: { fields: { id: string, name: string }, key: [id], actions: { list: {} }, pagination: ${single} }`,
      requests: `{ things: { list: { path: /things, records: ${records} } } }`,
      respond: () => ({ body }),
    });
    const { code, stdout, stderr } = await service.cli('sync');
    return { code, text: stdout + stderr, rows: code === 2 ? [] : columns(service, 'things') };
  };
  const rows = [
    { id: '1', name: 'a' },
    { id: '2', name: 'b' },
    { id: '3', name: null },
  ];

  it('are the elements of lists in a list', async () => {
    const days = [{ visits: [rows[0], rows[1]] }, { visits: [] }, { visits: [rows[2]] }];
    expect((await read("'days[*].visits[*]'", { days })).rows).toEqual(rows);
    const wrapped = days.map(({ visits }) => ({ visits: visits.map((guest) => ({ guest })) }));
    expect((await read("'days[*].visits[*].guest'", { days: wrapped })).rows).toEqual(rows);
  });

  it('are the members of an object, whose names fill a field', async () => {
    const map = { '1': { name: 'a' }, '2': { name: 'b' }, '3': {} };
    expect((await read('{ path: data, map: true, keyInto: id }', { data: map })).rows).toEqual(rows);
    expect((await read('{ path: data, map: true }', { data: { x: rows[0], y: rows[1] } })).rows).toHaveLength(
      2,
    );
    expect(await read('{ path: data, map: true, keyInto: id }', { data: [] })).toMatchObject({
      code: 0,
      rows: [],
    });
  });

  it('are an error where the shape is another one', async () => {
    const list = await read('{ path: data, map: true }', { data: rows });
    expect(list.code).not.toBe(0);
    expect(list.text).toContain('expected an object of records at data, got data is an array of 3');
    expect((await read("'days[*].visits[*]'", { days: [{ visits: { id: '1' } }] })).code).not.toBe(0);
  });
});

describe('a definition of listings and records', () => {
  const problems = (settings: string, entity: string): string =>
    problemsIn(`
name: described
title: Described
id: 3f2a6c8e-5b7d-4e1f-9a0c-2d4e6f8a1b3c
rateLimit: { requestsPerSecond: 10, concurrency: 4 }
${withSettings(settings, entity, pens).replace('$ORIGIN', 'https://api.example.com')}`).join('\n');
  const open = '{ colors: { title: Colors } }';

  it.each([
    ['{ color: [red, red] }', open, 'each.color.1: red is named twice'],
    ['{ color: [3] , shade: [x] }', open, 'each.shade: no such list parameter'],
    [
      '{ color: { field: colours } }',
      open,
      'each.color.field: no such setting: "colours"; did you mean "colors"?',
    ],
    [
      '{ color: { field: colors } }',
      '{ colors: { title: C, secret: true } }',
      'expected a setting that is not secret',
    ],
    [
      '{ color: { field: colors } }',
      '{ colors: { title: C, required: false } }',
      'expected colors to be required',
    ],
    ['{}', open, 'inject.color: no such parameter of each or of windows: "color"'],
  ])('is refused with each: %s', (each, settings, message) => {
    expect(problems(settings, colors(each))).toContain(message);
  });

  it.each([
    ['only: { field: name }', 'only: expected value, values or setting, one of them'],
    ['only: [{ field: nam, value: x }]', 'only.0.field: no such field: "nam"; did you mean "name"?'],
    ['only: { field: name, setting: colour }', 'only.setting: no such setting'],
    ['at: { color: color.x }', 'at.color: expected a path in another member'],
    ['at: { nothing: name.x }', 'at.nothing: no such field'],
    ['fixedParams: { color: red }', 'each.color: is also set by fixedParams'],
  ])('is refused with %s', (more, message) => {
    expect(problems(open, colors('{ color: [red] }', `\n    ${more}`))).toContain(message);
  });
});
