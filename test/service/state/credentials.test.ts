import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect } from 'vitest';
import { it } from '../../support/it.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { ServiceState } from '../../../src/service/state/open-service-state.ts';
import { addApplication, openTestState, principalOf } from '../../support/service/open-test-state.ts';

const secret = 'api-key-0f4c9d2b71';
const incompatible = expect.objectContaining({ code: 'SINK_INCOMPATIBLE' }) as Error;

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

describe('stored credentials', () => {
  it('come back as they were given, numbers and names of any kind included', () => {
    using state = openTestState({ folder });
    const credentials = JSON.parse(
      `{"api_key":"${secret}","__proto__":{"a":1},"n":1.5,"deep":[{"é\\u0000":null}]}`,
    ) as JsonObject;
    const { organizationId, id } = addConnector(state, { ...credentials, big: 9_007_199_254_740_993n });
    expect(state.connectors.credentials(organizationId, id)).toEqual({
      ...credentials,
      big: 9_007_199_254_740_993n,
    });
    expect(Reflect.get({}, 'a')).toBeUndefined();
  });

  it('are replaced, kept or taken away as an update says', () => {
    using state = openTestState({ folder });
    const { organizationId, id } = addConnector(state, { api_key: secret });
    state.connectors.update(organizationId, id, { name: 'renamed' });
    expect(state.connectors.credentials(organizationId, id)).toEqual({ api_key: secret });
    state.connectors.update(organizationId, id, { credentials: { api_key: 'new' } });
    expect(state.connectors.credentials(organizationId, id)).toEqual({ api_key: 'new' });
    state.connectors.update(organizationId, id, { credentials: null });
    expect(state.connectors.credentials(organizationId, id)).toBeNull();
    expect(state.connectors.byId(organizationId, id)?.name).toBe('renamed');
  });

  it('do not open for another organization', () => {
    using state = openTestState({ folder });
    const { id } = addConnector(state, { api_key: secret });
    const other = addApplication(state, 'other').organizationId;
    expect(state.connectors.credentials(other, id)).toBeNull();
  });

  it('open after a restart with the same key, and stop a start with another one', () => {
    const first = openTestState({ folder });
    const { organizationId, id } = addConnector(first, { api_key: secret });
    first[Symbol.dispose]();
    expect(() => openTestState({ folder, key: Buffer.alloc(32, 8) })).toThrow(
      /sealed with another key.*CONNECTOR_SYNC_SERVICE_KEY/,
    );
    using second = openTestState({ folder });
    expect(second.connectors.credentials(organizationId, id)).toEqual({ api_key: secret });
  });

  it('that no key opens can be removed, and the rest continues under a new key', () => {
    const first = openTestState({ folder });
    const { organizationId, id } = addConnector(first, { api_key: secret });
    first[Symbol.dispose]();
    const db = new Database(join(folder, 'service.db'));
    db.exec('UPDATE connectors SET credentials = NULL');
    db.close();
    using second = openTestState({ folder, key: Buffer.alloc(32, 8) });
    expect(second.connectors.credentials(organizationId, id)).toBeNull();
    second.connectors.update(organizationId, id, { credentials: { api_key: 'new' } });
    expect(second.connectors.credentials(organizationId, id)).toEqual({ api_key: 'new' });
  });

  it('need no key where only applications are read', () => {
    const first = openTestState({ folder });
    const { organizationId, id } = addConnector(first, { api_key: secret });
    first[Symbol.dispose]();
    using second = openTestState({ folder, key: null });
    expect(second.applications.list()).toHaveLength(1);
    expect(() => second.connectors.credentials(organizationId, id)).toThrow(/without a key/);
  });

  it('do not open with a single byte changed, cut off or added', () => {
    using state = openTestState({ folder });
    const { organizationId, id } = addConnector(state, { api_key: secret });
    const sealed = readSealed(folder, id);
    const changed = Array.from(sealed, (_, index) => {
      const copy = Buffer.from(sealed);
      copy.writeUInt8(sealed.readUInt8(index) ^ 1, index);
      return copy;
    });
    const cut = [0, 1, 9, 21, 36, 37, sealed.length - 1].map((length) => sealed.subarray(0, length));
    for (const other of [...changed, ...cut, Buffer.concat([sealed, Buffer.of(0)])]) {
      writeSealed(folder, id, other);
      expect(() => state.connectors.credentials(organizationId, id)).toThrow(incompatible);
    }
    writeSealed(folder, id, sealed);
    expect(state.connectors.credentials(organizationId, id)).toEqual({ api_key: secret });
  });

  it('do not open when they were moved to another connector or another organization', () => {
    using state = openTestState({ folder });
    const { organizationId, id } = addConnector(state, { api_key: secret });
    const second = addConnector(state, { api_key: 'mine' });
    writeSealed(folder, second.id, readSealed(folder, id));
    expect(() => state.connectors.credentials(organizationId, second.id)).toThrow(
      /belong to another connector/,
    );

    const other = addApplication(state, 'other').organizationId;
    const theirs = state.workspaces.ensure(other, 'theirs').id;
    const db = new Database(join(folder, 'service.db'));
    db.prepare('UPDATE connectors SET organization_id = ?, workspace_id = ? WHERE id = ?').run(
      other,
      theirs,
      id,
    );
    db.close();
    expect(() => state.connectors.credentials(other, id)).toThrow(/belong to another connector/);
  });

  it('are sealed differently each time', () => {
    using state = openTestState({ folder });
    const { organizationId, id } = addConnector(state, { api_key: secret });
    const first = readSealed(folder, id);
    state.connectors.update(organizationId, id, { credentials: { api_key: secret } });
    expect(readSealed(folder, id).subarray(9, 21)).not.toEqual(first.subarray(9, 21));
  });
});

// Proves promise 17
it('no secret, token or key stands in any file, the write-ahead log included', () => {
  const state = openTestState({ folder });
  const acme = addApplication(state, 'acme');
  const { token } = state.tokens.issueApplication(acme);
  const connector = addConnector(state, { api_key: secret, nested: { password: 'correct horse battery' } });
  const principal = principalOf(state, acme);
  const scoped = state.tokens.issueScoped(principal, connector.workspaceId).token;
  state.connectors.update(acme.organizationId, connector.id, { credentials: { api_key: `${secret}-2` } });
  const searched = (): void => {
    const names = readdirSync(folder);
    const bytes = Buffer.concat(names.map((name) => readFileSync(join(folder, name))));
    // What is searched does hold what is no secret.
    expect([names.includes('service.db'), bytes.includes('client-of-acme')]).toEqual([true, true]);
    for (const text of [secret, 'correct horse', 'secret-of-acme', token, scoped, Buffer.alloc(32, 7)]) {
      for (const form of [Buffer.from(text), Buffer.from(Buffer.from(text).toString('base64'))]) {
        expect(bytes.includes(form)).toBe(false);
      }
    }
  };
  expect(readdirSync(folder)).toContain('service.db-wal');
  searched();
  state[Symbol.dispose]();
  searched();
});

function addConnector(state: ServiceState, credentials: JsonObject) {
  const { organizationId } = addApplication(state, 'acme');
  const workspaceId = state.workspaces.ensure(organizationId, 'w').id;
  return state.connectors.create({
    organizationId,
    workspaceId,
    definition: 'email-marketing',
    name: 'Newsletter',
    replicationConfig: {},
    credentials,
  });
}

function readSealed(path: string, id: string): Buffer {
  const db = new Database(join(path, 'service.db'), { readonly: true });
  try {
    const sealed = db
      .prepare<[string], Buffer>('SELECT credentials FROM connectors WHERE id = ?')
      .pluck()
      .get(id);
    if (sealed === undefined) throw new Error('expected sealed credentials');
    return sealed;
  } finally {
    db.close();
  }
}

function writeSealed(path: string, id: string, sealed: Buffer): void {
  const db = new Database(join(path, 'service.db'));
  db.prepare('UPDATE connectors SET credentials = ? WHERE id = ?').run(sealed, id);
  db.close();
}
