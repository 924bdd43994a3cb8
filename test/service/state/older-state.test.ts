import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import { it } from '../../support/it.ts';
import { manualClock, openTestState } from '../../support/service/open-test-state.ts';
import { unpackFolder, unpackJson } from '../../support/stored/packed-files.ts';

interface Expected {
  readonly applications: readonly { readonly organizationId: string }[];
  readonly workspaces: readonly { readonly id: string; readonly name: string }[];
  readonly connectors: readonly unknown[];
  readonly audit: readonly unknown[];
  readonly principals: readonly unknown[];
  readonly tokens: readonly string[];
  /** Id of a workspace. */
  readonly deleted: string;
}

const expected = unpackJson('service-expected.json.br') as Expected;
const organizationId = expected.applications[0]?.organizationId ?? '';
const everything = { nameContains: null, status: null, limit: 9, after: null };

// Proves promise 1.7
it('reads everything in the data of the oldest version that is read, and changes it', async ({ folder }) => {
  unpackFolder('service.json.br', folder);
  const clock = manualClock();
  {
    using state = openTestState({ folder, clock });
    expect(state.applications.list()).toEqual(expected.applications);
    expect(state.workspaces.list(organizationId, everything)).toEqual(expected.workspaces);
    // They were written down with the name of the workspace beside them.
    expect(expected.connectors).toMatchObject(state.connectors.all());
    expect(state.audit.list(organizationId, 9)).toEqual(expected.audit);
    expect(expected.tokens.map((token) => state.tokens.find(token))).toEqual(expected.principals);
    expect(state.workspaces.list(organizationId, { ...everything, after: expected.deleted })).toEqual([]);
    expect(state.connectors.credentials(organizationId, 'sample')).toBeNull();
    expect(state.connectors.credentials(organizationId, 'real')).toEqual({
      api_key: 'key-0',
      big: 9_007_199_254_740_993n,
    });
    const [application] = expected.applications;
    const { applications } = state;
    expect(await applications.authenticate('client-of-acme', 'secret-of-acme', '127.0.0.1')).toEqual(
      application,
    );
    expect(await applications.authenticate('client-of-acme', 'another', '127.0.0.1')).toBeNull();

    const [sales] = expected.workspaces;
    state.workspaces.update(organizationId, sales?.id ?? '', { name: 'renamed' });
    state.connectors.update(organizationId, 'real', { credentials: { api_key: 'key-1' } });
    expect(state.connectors.delete(organizationId, 'sample')).toBe(true);
    expect(state.applications.delete('client-of-other')).toBe(true);
  }
  using again = openTestState({ folder, clock });
  expect(again.connectors.all()).toMatchObject([{ id: 'real' }]);
  expect(again.workspaces.byName(organizationId, 'renamed')?.id).toBe(expected.workspaces[0]?.id);
  expect(again.connectors.credentials(organizationId, 'real')).toEqual({ api_key: 'key-1' });
  expect(again.applications.list()).toHaveLength(1);
});

it('has the tables that this version makes', ({ folder }) => {
  unpackFolder('service.json.br', join(folder, 'older'));
  openTestState({ folder: join(folder, 'new') })[Symbol.dispose]();
  const [older, made] = ['older', 'new'].map((name) => columnsOf(join(folder, name, 'service.db')));
  expect(older).toEqual(made);
});

function columnsOf(file: string): unknown {
  const db = new Database(file, { readonly: true });
  try {
    return db
      .prepare(
        `SELECT one.name AS "table", two.* FROM sqlite_schema AS one, pragma_table_info(one.name) AS two
         ORDER BY one.name, two.cid`,
      )
      .all();
  } finally {
    db.close();
  }
}
