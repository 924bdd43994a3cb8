import { describe, expect } from 'vitest';
import { goodConfig, it, type ConfigFolder } from '../support/settings/config-folder.ts';

let folder: ConfigFolder;
it.beforeEach(({ configs }) => {
  folder = configs;
});

describe('a config file is refused', () => {
  it.each([
    ['without api', /api:[^]*?(?=sinks)/, '', 'api: is missing; expected an object'],
    [
      'with an unknown key',
      'baseUrl:',
      'base_url:',
      ':2: api.base_url: unknown key; did you mean "baseUrl"?',
    ],
    [
      'with an unknown key that looks like nothing',
      'clientId: me',
      'clientId: me\n  zzz: 1',
      'api.zzz: unknown key; expected one of baseUrl, clientId, clientSecret, organizationId, scopedToWorkspace',
    ],
    [
      'with a number for a text',
      'clientId: me',
      'clientId: 7',
      ':3: api.clientId: expected a string, got a number',
    ],
    [
      'with an organization id that is no header',
      'clientId: me',
      'clientId: me\n  organizationId: "a b"',
      'api.organizationId: expected letters, digits',
    ],
    [
      'with an unknown sink type',
      'type: sqlite',
      'type: mysql',
      'sinks.warehouse.type: expected type: sqlite, jsonl or postgres',
    ],
    [
      'with a sink in memory',
      './warehouse.db',
      '":memory:"',
      'sinks.warehouse.path: expected the path of a file on disk',
    ],
    ['with a sink in capitals', 'warehouse: {', 'Warehouse: {', 'sinks.Warehouse: expected lower-case words'],
    [
      'with a directory for a database',
      'path:',
      'directory:',
      'sinks.warehouse.path: is missing; expected a string',
    ],
    [
      'with two sinks in one file',
      'connectors:',
      '  other: { type: sqlite, path: ./x/../warehouse.db }\nconnectors:',
      ':7: sinks.other.path: the sink warehouse already stores its records there',
    ],
    [
      "with a database on a JSONL sink's ledger",
      'connectors:',
      '  lake: { type: jsonl, directory: lake }\n  other: { type: sqlite, path: lake/_ledger.db }\nconnectors:',
      'sinks.other.path: the sink lake already stores',
    ],
    [
      'with a connector in capitals',
      'newsletter:',
      'Newsletter:',
      ':8: connectors.Newsletter: expected lower-case words of letters and digits joined by _ or -, at most 40',
    ],
    ['with a connector named prototype', 'newsletter:', 'prototype:', 'prototype: this name is reserved'],
    [
      'with two connectors of one table prefix',
      'connectors:',
      'connectors:\n  a-b: { definition: email-marketing, id: x, sink: warehouse }\n  a_b: { definition: email-marketing, id: y, sink: warehouse }',
      'connectors.a_b: its tables would have the same names as those of a-b',
    ],
    [
      'with an unknown definition',
      'email-marketing',
      'email-marketting',
      ':9: connectors.newsletter.definition: no such definition: "email-marketting"; did you mean "email-marketing"?',
    ],
    [
      'with an unknown sink',
      'sink: warehouse',
      'sink: wharehouse',
      ':11: connectors.newsletter.sink: no such sink: "wharehouse"; did you mean "warehouse"?',
    ],
    [
      'with an id that would change the path',
      'id: c-1',
      'id: ../x',
      ':10: connectors.newsletter.id: expected 1 to 128 letters',
    ],
    [
      'with neither id nor workspace',
      '    id: c-1\n',
      '',
      'connectors.newsletter: expected id (the connector in the API) or workspace',
    ],
    [
      'with id and workspace',
      'id: c-1',
      'id: c-1\n    workspace: default',
      'connectors.newsletter.workspace: expected either id or workspace, got both',
    ],
    [
      'with guards out of range',
      'sinks:',
      'guards: { maxDeleteShare: 2, minDeleteRows: -1 }\nsinks:',
      'guards.maxDeleteShare: expected at most 1, got 2',
    ],
    [
      'with an open Redis elsewhere',
      'sinks:',
      'redis: { url: redis://cache:6379 }\nsinks:',
      'redis.url: expected a password',
    ],
    [
      'with other series',
      'sinks:',
      'http: { connectorSeries: some }\nsinks:',
      'http.connectorSeries: expected one of all, attention, got "some"',
    ],
    ['with a number as token', 'sinks:', 'http: { token: 5 }\nsinks:', 'http.token: expected a string, got'],
    [
      'with the API version in the address',
      'test/',
      'test/api/v1',
      'api.baseUrl: expected the address without /api/v1',
    ],
  ])('%s', (_, from, to, expected) => {
    expect(goodConfig.replace(from, to)).not.toBe(goodConfig);
    expect(folder.problems(goodConfig.replace(from, to)).join('\n')).toContain(expected);
  });

  it.each([
    ['concurrency: 33', 'concurrency: expected at most 32, got 33'],
    ['history: yes please', 'history: expected true, false or { keep: <duration> }'],
    ['history: { keep: 2h }', 'history.keep: expected at least 1d'],
    [
      'onSchemaChange: evolv',
      'onSchemaChange: expected one of keepExtra, evolve, quarantine, fail, got "evolv"',
    ],
    [
      'entities: { lists: { onSchemaChange: true } }',
      'entities.lists.onSchemaChange: expected one of keepExtra, evolve, quarantine, fail, got',
    ],
    ['concurrency: 1.5', 'concurrency: expected a whole number'],
    ['rateLimit: { requestsPerSecond: 0 }', 'rateLimit.requestsPerSecond: expected more than 0, got 0'],
    ['schedule: {}', 'schedule: expected either cron or every, got neither'],
    ['schedule: { every: 1h, cron: "* * * * *" }', 'schedule: expected either cron or every, got both'],
    ['schedule: { every: 9s }', 'schedule.every: expected at least 10s'],
    ['schedule: { every: soon }', 'schedule.every: expected a duration such as 30s, 30m, 1h30m or 7d'],
    ['schedule: { every: 1h, timezone: UTC }', 'schedule.timezone: belongs to cron'],
    ['schedule: { cron: "61 * * * *" }', 'schedule.cron: minute: expected numbers 0-59'],
    [
      'schedule: { cron: "* * * * *", timezone: Europe/Berlni }',
      'schedule.timezone: expected the name of a time zone',
    ],
    ['schedule: { every: 1h, jitter: 2h }', 'schedule.jitter: expected at most 1h'],
    ['schedule: { every: 2d, jitter: 25h }', 'schedule.jitter: expected at most 1d'],
    ['schedule: { cron: "0 4 * * *", jitter: 1d1s }', 'schedule.jitter: expected at most 1d'],
    ['schedule: { every: 1h, jitter: a bit }', 'schedule.jitter: expected a duration such as 30s'],
    ['schedule: { every: 1h, jitter: 0s }', 'schedule.jitter: expected a duration such as 30s'],
    [
      'schedule: { every: 1h, jitter: 5 }',
      'schedule.jitter: expected a duration such as 30s, 30m, 1h30m or 7d, got a number',
    ],
    [
      'schedule: { every: 1h, missed: skipp }',
      'schedule.missed: expected one of once, skip, got "skipp"; did you mean "skip"?',
    ],
    ['schedule: { every: 1h, jiter: 5m }', 'schedule.jiter: unknown key; did you mean "jitter"?'],
    ['freshWithin: today', 'newsletter.freshWithin: expected a duration such as 30s'],
    ['entities: { lists: { freshWithin: 0h } }', 'entities.lists.freshWithin: expected a duration'],
    [
      'exclude: [segment_memberz]',
      'exclude.0: no such entity in email-marketing: "segment_memberz"; did you mean "segment_members"?',
    ],
    [
      'exclude: [segments]',
      'exclude.0: without segments nothing leads to segment_members: exclude it as well',
    ],
    [
      'exclude: [lists, tags]',
      'exclude.0: without lists nothing leads to list_members, interest_categories, interests, segments, segment_members: exclude them as well',
    ],
    ['include: [tags]', 'include.0: tags is found through lists: include it as well'],
    [
      'include: [reports]\n    exclude: [reports]',
      'connectors.newsletter: expected at least one entity to read, got none',
    ],
    ['entities: { memberz: {} }', 'entities.memberz: no such entity in email-marketing'],
    ['entities: { lists: { fullEvery: 0d } }', 'entities.lists.fullEvery: expected a duration'],
    [
      'entities: { lists: { parents: [campaigns] } }',
      'entities.lists.parents.0: "campaigns" is no parent of lists: it has none',
    ],
    [
      'entities: { tags: { parents: [campaigns] } }',
      'entities.tags.parents.0: "campaigns" is no parent of tags: its parents are lists',
    ],
    [
      'entities: { list_members: { params: { status: x } } }',
      'entities.list_members.params.status: status: expected one of',
    ],
    [
      'entities: { list_members: { params: { list_id: x } } }',
      'params.list_id: is filled from every record of lists; leave it out',
    ],
    [
      'entities: { list_members: { params: { count: 5 } } }',
      'params.count: is set page by page; leave it out',
    ],
    [
      'entities: { list_members: { params: { sort_dir: DESC } } }',
      'params.sort_dir: sets the order that a complete read needs; leave it out',
    ],
    [
      'entities: { list_members: { params: {}, variants: [{}] } }',
      'variants: expected either params or variants, got both',
    ],
    [
      'entities: { list_members: { variants: [{ vip_only: true, email_type: a }, { email_type: a, vip_only: "true" }] } }',
      'variants.1: says the same as another variant',
    ],
  ])('with a connector that says %s', (more, expected) => {
    const problems = folder.problems(`${goodConfig}    ${more}\n`);
    expect(problems.join('\n')).toContain(expected);
    expect(problems.every((problem) => /^:\d+: connectors\.newsletter/.test(problem))).toBe(true);
  });

  it.each(['', 'Sync', '9sync', 'a:b', 'a b', '{a}', `a${'b'.repeat(40)}`])(
    'with "%s" before the keys in Redis',
    (prefix) => {
      expect(folder.problems(`redis: { prefix: ${JSON.stringify(prefix)} }\n${goodConfig}`)).toEqual([
        ':1: redis.prefix: expected a lower-case letter, then lower-case letters, digits, "_" and "-", at most 40 characters',
      ]);
    },
  );

  it.each(['', '123456789012345', 'sixteen letters and', 'sixteen-lettérs-and', 'a'.repeat(513)])(
    'with the token "%s" for the board, which is not quoted',
    (token) => {
      expect(folder.problems(`http: { token: "${token}" }\n${goodConfig}`)).toEqual([
        ':1: http.token: expected 16 to 512 visible ASCII characters without blanks',
      ]);
    },
  );

  it('with a filter that the definition fixes', () => {
    const config = goodConfig.replace('email-marketing', 'workspace-notes');
    expect(folder.problems(`${config}    entities: { pages: { params: { filter: {} } } }\n`)).toEqual([
      ':12: connectors.newsletter.entities.pages.params.filter: is fixed by the definition; leave it out',
    ]);
  });

  it('with everything that is wrong in it at once', () => {
    const config = goodConfig
      .replace('./warehouse.db', '":memory:"')
      .replace('c-1', '"a b"')
      .replace('sink: warehouse', 'sink: nowhere');
    expect(folder.problems(config).map((problem) => problem.split(': ').slice(0, 2).join(': '))).toEqual([
      ':6: sinks.warehouse.path',
      ':10: connectors.newsletter.id',
      ':11: connectors.newsletter.sink',
    ]);
  });
});

describe('leaving entities out', () => {
  it('is fine when the children go too, or are found another way', () => {
    expect(folder.problems(`${goodConfig}    exclude: [segments, segment_members]\n`)).toEqual([]);
    const notes = goodConfig.replace('email-marketing', 'workspace-notes');
    expect(folder.problems(`${notes}    exclude: [blocks]\n`)).toEqual([]);
    const both = '    entities: { comments: { parents: [pages, blocks] } }\n';
    expect(folder.problems(`${notes}    exclude: [blocks]\n${both}`).join()).toContain(
      'without blocks nothing leads to comments',
    );
  });
});
