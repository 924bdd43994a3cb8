import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { goodConfig, it, type ConfigFolder } from '../support/settings/config-folder.ts';

const tracker = readFileSync(
  fileURLToPath(new URL('../fixtures/definitions/issue-tracker.yaml', import.meta.url)),
  'utf8',
);

let folder: ConfigFolder;
it.beforeEach(({ configs }) => {
  folder = configs;
});

describe('a config file with mistakes of several kinds', () => {
  it('reports all of wrong shapes, each with its line', () => {
    const problems = folder.problems(`api:
  baseUrl: https://me:hush@api.example.test
  clientId: 7
sinks:
  warehouse: { type: sqlite, path: ./warehouse.db, durability: ful }
  lake: { type: jsonl }
connectors:
  newsletter:
    definition: email-marketting
    id: ../x
    sink: warehouse
    concurrency: four
    schedule: { cron: "61 * * * *" }
  wiki: { definition: workspace-notes, id: c-2, sink: lake, exclude: [page], shedule: {} }
`);
    expect(problems).toEqual([
      ':1: api.clientSecret: is missing; expected a string',
      ':2: api.baseUrl: expected no user name or password in the address; use clientId and clientSecret',
      ':3: api.clientId: expected a string, got a number',
      ':5: sinks.warehouse.durability: expected one of full, normal, got "ful"; did you mean "full"?',
      ':6: sinks.lake.directory: is missing; expected a string',
      ':12: connectors.newsletter.concurrency: expected a number, got a string',
      ':13: connectors.newsletter.schedule.cron: minute: expected numbers 0-59, *, ranges and steps, got "61"',
      ':14: connectors.wiki.shedule: unknown key; did you mean "schedule"?',
    ]);
  });

  it('reports all of parts that do not fit together, once their shapes are right', () => {
    const problems =
      folder.problems(`${goodConfig.replace('c-1', '../x')}  typo: { definition: email-marketting, id: c-3, sink: wharehouse }
  wiki: { definition: workspace-notes, id: c-2, sink: warehouse, exclude: [page] }
  more: { definition: workspace-notes, sink: warehouse }
`);
    expect(problems).toEqual([
      ':10: connectors.newsletter.id: expected 1 to 128 letters, digits, "_" and "-"',
      ':12: connectors.typo.sink: no such sink: "wharehouse"; did you mean "warehouse"?',
      ':12: connectors.typo.definition: no such definition: "email-marketting"; did you mean "email-marketing"?',
      ':13: connectors.wiki.exclude.0: no such entity in workspace-notes: "page"; did you mean "pages"?',
      ':14: connectors.more: expected id (the connector in the API) or workspace (to find it by definition), or credentials (to read the service itself)',
    ]);
  });

  it('reports those about scheduled runs together, and each only once', () => {
    folder.env['TOKEN'] = 'hush';
    const problems = folder.problems(`${goodConfig}    schedule: { every: 5s, jitter: soon, missed: twice }
    freshWithin: 1.5h
    entities: { lists: { freshWithin: never }, tags: { freshWithin: 5 } }
redis: { url: redis://cache, prefix: "A:" }
http: { token: "\${TOKEN}" }
`);
    const bad = 'expected a duration such as 30s, 30m, 1h30m or 7d';
    expect(problems).toEqual([
      ':12: connectors.newsletter.schedule.every: expected at least 10s',
      `:12: connectors.newsletter.schedule.jitter: ${bad}`,
      ':12: connectors.newsletter.schedule.missed: expected one of once, skip, got "twice"',
      `:13: connectors.newsletter.freshWithin: ${bad}`,
      `:14: connectors.newsletter.entities.lists.freshWithin: ${bad}`,
      ':14: connectors.newsletter.entities.tags.freshWithin: expected a duration such as 30s, 30m, 1h30m or 7d, got a number',
      ':15: redis.url: expected a password (redis://:password@host): a Redis that others can reach must not be open',
      ':15: redis.prefix: expected a lower-case letter, then lower-case letters, digits, "_" and "-", at most 40 characters',
      ':16: http.token: expected 16 to 512 visible ASCII characters without blanks',
    ]);
  });

  it('reports them without api, too', () => {
    expect(folder.problems(goodConfig.replace(/api:[^]*?(?=sinks)/, '').replace('c-1', '../x'))).toEqual([
      ':1: api: is missing; expected an object',
      ':6: connectors.newsletter.id: expected 1 to 128 letters, digits, "_" and "-"',
    ]);
  });
});

it('reports mistakes of definitions before those of connectors', () => {
  folder.write('definitions/tracker.yaml', tracker.replace('maxSize: 50', 'maxSize: 51'));
  const config = `definitions: [definitions]\n${goodConfig.replace('email-marketing', 'issue-tracker')}`;
  const places = folder.problems(config).map((problem) => problem.split(': ').slice(0, 2).join(' '));
  expect(places.map((place) => place.replace(folder.path, ''))).toEqual([
    '/definitions/tracker.yaml:35 entities.projects.pagination.maxSize',
    '/definitions/tracker.yaml:35 entities.issues.pagination.maxSize',
  ]);
});

it('a value from outside is not quoted by any check', () => {
  folder.env['VALUE'] = 'hush';
  const problems = [
    ...folder.problems(`${goodConfig}    schedule: { cron: "\${VALUE} * * * *" }\n`),
    ...folder.problems(
      goodConfig.replace('sink: warehouse', 'sink: "${VALUE}"').replace('email-marketing', '${VALUE}'),
    ),
  ];
  expect(problems).toHaveLength(3);
  expect(problems.join('\n')).not.toContain('hush');
});
