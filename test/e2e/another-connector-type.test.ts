import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { success } from '../support/hostile/replies.ts';
import { startHostileServer } from '../support/hostile-server.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { entityNamed, syncOnce } from '../support/sync-once.ts';

const folderOfDefinitions = fileURLToPath(new URL('../fixtures/definitions', import.meta.url));

// Proves specification 4.4.5
it('walks a connector type that nothing but a YAML file describes, with a generic cursor in both spellings', async ({
  folder,
}) => {
  const definition = loadDefinitions([folderOfDefinitions]).get('issue-tracker');
  if (definition === undefined) throw new Error('no definition issue-tracker');
  const projects = Array.from({ length: 70 }, (_, index): JsonObject => ({
    id: `p-${index}`,
    name: `Project ${index}`,
    state: 'active',
  }));
  const issuesOf = (project: string): JsonObject[] =>
    Array.from({ length: 120 }, (_, index) => ({ id: index, title: `${project} #${index}`, labels: ['a'] }));
  await using server = await startHostileServer({
    connectors: [{ id: 'c1', name: 'One', definitionId: definition.id }],
    respond: ({ entity, params }) => {
      const project = params['project_id'];
      const rows = entity === 'projects' ? projects : issuesOf(typeof project === 'string' ? project : '');
      const from = typeof params['cursor'] === 'string' ? Number(params['cursor'].slice(3)) : 0;
      const end = from + Number(params['limit']);
      const hasMore = end < rows.length;
      const cursor = hasMore ? `at-${end}` : null;
      const metadata =
        entity === 'projects'
          ? { has_next_page: hasMore, end_cursor: cursor }
          : { hasNextPage: hasMore, endCursor: cursor };
      return success(rows.slice(from, end), metadata);
    },
  });
  const run = {
    baseUrl: server.baseUrl,
    definition,
    connectorId: 'c1',
    sink: sampleSinks.sqlite.options(folder),
  };
  const report = await syncOnce(run);
  expect({ outcome: report.outcome, failures: report.failures }).toEqual({ outcome: 'ok', failures: [] });
  const issues = sampleSinks.sqlite.rows(folder, definition.name, entityNamed(definition, 'issues').table);
  expect(
    sampleSinks.sqlite.rows(folder, definition.name, entityNamed(definition, 'projects').table).size,
  ).toBe(70);
  expect(issues.size).toBe(70 * 120);
  expect(issues.get('["p-3",7]')?.columns).toMatchObject({
    project_id: 'p-3',
    id: 7,
    title: 'p-3 #7',
    labels: ['a'],
  });
});
