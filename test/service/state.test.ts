import {
  readdirSync,
  readFileSync,
  chmodSync,
  mkdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
  rmSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, afterEach } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import {
  createApplications,
  createTokens,
  type ServiceState,
} from '../../src/service/state/open-service-state.ts';
import { openStateFile } from '../../src/service/state/open-state-file.ts';
import { loadServiceKey } from '../../src/service/state/service-key.ts';
import { it } from '../support/it.ts';
import {
  addApplication,
  openTestState,
  principalOf,
  manualClock,
} from '../support/service/open-test-state.ts';

describe('credentials', () => {
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

    it('are sealed differently each time', () => {
      using state = openTestState({ folder });
      const { organizationId, id } = addConnector(state, { api_key: secret });
      const first = readSealed(folder, id);
      state.connectors.update(organizationId, id, { credentials: { api_key: secret } });
      expect(readSealed(folder, id).subarray(9, 21)).not.toEqual(first.subarray(9, 21));
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
      credentials,
      account: null,
      address: null,
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
});

describe('tokens', () => {
  const opened: Disposable[] = [];
  const kept = <Thing extends Disposable>(thing: Thing): Thing => {
    opened.push(thing);
    return thing;
  };
  afterEach(() => {
    for (const thing of opened.splice(0).reverse()) thing[Symbol.dispose]();
  });
  const missing = '00000000-0000-4000-8000-000000000000';

  describe('application tokens', () => {
    it('stand for their application until they expire and not a millisecond longer', () => {
      const clock = manualClock();
      const state = kept(openTestState({ clock }));
      const acme = addApplication(state, 'acme');
      const { token, expiresInSeconds } = state.tokens.issueApplication(acme);
      expect(expiresInSeconds).toBe(900);
      expect(state.tokens.find(token)).toEqual({
        kind: 'application',
        clientId: acme.clientId,
        organizationId: acme.organizationId,
        workspaceId: null,
        tokenName: expect.stringMatching(/^[0-9a-f]{12}$/) as string,
      });
      clock.pass(899_999);
      expect(state.tokens.find(token)).not.toBeNull();
      clock.pass(1);
      expect(state.tokens.find(token)).toBeNull();
    });

    it('are found by the whole token only', () => {
      const state = kept(openTestState());
      const { token } = state.tokens.issueApplication(addApplication(state, 'acme'));
      for (const other of ['', token.slice(1), `${token}a`, token.toUpperCase(), "' OR 1=1 --", '\u0000']) {
        expect(state.tokens.find(other)).toBeNull();
      }
    });

    it('are bounded in number for each application, the oldest ones go, and those of others stay', ({
      folder,
    }) => {
      const clock = manualClock();
      const state = openTestState({ folder, clock, maxTokens: 3 });
      const acme = addApplication(state, 'acme');
      const others = state.tokens.issueApplication(addApplication(state, 'other')).token;
      const issued = Array.from({ length: 20 }, () => state.tokens.issueApplication(acme).token);
      expect(issued.filter((token) => state.tokens.find(token) !== null)).toEqual(issued.slice(-3));
      expect(state.tokens.find(others)).not.toBeNull();
      expect(tokenRows(folder)).toBe(4);
      clock.pass(900_000);
      state.tokens.issueApplication(acme);
      expect(tokenRows(folder)).toBe(1);
      state[Symbol.dispose]();
    });
  });

  describe('scoped tokens', () => {
    it('stand for one workspace, live longer, and end with it', () => {
      const clock = manualClock();
      const state = kept(openTestState({ clock }));
      const { acme, workspaceId, token } = scoped(state);
      expect(state.tokens.find(token)).toMatchObject({
        kind: 'scoped',
        workspaceId,
        clientId: acme.clientId,
      });
      clock.pass(1_199_999);
      expect(state.tokens.find(token)).not.toBeNull();
      expect(state.workspaces.delete(acme.organizationId, workspaceId)).not.toBeNull();
      expect(state.tokens.find(token)).toBeNull();
    });

    it('end with their application and at their time', () => {
      const clock = manualClock();
      const state = kept(openTestState({ clock }));
      const { acme, token, workspaceId } = scoped(state);
      const second = state.tokens.issueScoped(principalOf(state, acme), workspaceId).token;
      clock.pass(1_200_000);
      expect([token, second].map((each) => state.tokens.find(each))).toEqual([null, null]);
      const third = state.tokens.issueScoped(principalOf(state, acme), workspaceId).token;
      state.applications.delete(acme.clientId);
      expect(state.tokens.find(third)).toBeNull();
    });

    it('are refused for workspaces that are not there or belong to others, and to scoped tokens', () => {
      const state = kept(openTestState());
      const { acme, token, workspaceId } = scoped(state);
      const other = addApplication(state, 'other');
      const foreign = state.workspaces.ensure(other.organizationId, 'theirs');
      const principal = principalOf(state, acme);
      for (const id of [missing, foreign.id, '', "'"]) {
        expect(() => state.tokens.issueScoped(principal, id)).toThrow('There is no such workspace.');
      }
      const narrow = state.tokens.find(token);
      if (narrow === null) throw new Error('expected a principal');
      expect(() => state.tokens.issueScoped(narrow, workspaceId)).toThrow(/cannot ask for further tokens/);
    });
  });

  function scoped(state: ServiceState) {
    const acme = addApplication(state, 'acme');
    const { id: workspaceId } = state.workspaces.ensure(acme.organizationId, 'w');
    return { acme, workspaceId, ...state.tokens.issueScoped(principalOf(state, acme), workspaceId) };
  }

  function tokenRows(folder: string): number {
    const db = new Database(join(folder, 'service.db'), { readonly: true });
    try {
      return db.prepare<[], number>('SELECT count(*) FROM tokens').pluck().get() ?? -1;
    } finally {
      db.close();
    }
  }

  describe('a full disk', () => {
    const openFullDisk = (folder: string) => {
      const clock = manualClock();
      const file = openStateFile(folder);
      kept({ [Symbol.dispose]: () => file.close() });
      const applications = createApplications(file, clock);
      const tokens = createTokens(file, {
        clock,
        tokenTtlSeconds: 900,
        maxTokens: 1000,
        tokensPerSecond: 1000,
      });
      const acme = applications.put({
        organizationName: 'acme',
        clientId: 'acme',
        clientSecret: 'acme-secret',
      });
      // SQLite answers SQLITE_FULL as it does where the file system has no room.
      file.db.pragma(`max_page_count = ${Number(file.db.pragma('page_count', { simple: true }))}`);
      return { clock, file, applications, tokens, acme };
    };

    // Proves promise 17.4
    it('keeps no client out: tokens that cannot be stored are kept in memory', ({ folder }) => {
      const { clock, file, tokens, acme } = openFullDisk(folder);
      const issued = Array.from({ length: 300 }, () => tokens.issueApplication(acme).token);
      const stored = file.db.prepare('SELECT count(*) FROM tokens').pluck().get();
      expect(stored).toBeLessThan(300);
      const principals = issued.map((token) => tokens.find(token));
      expect(new Set(principals.map((principal) => principal?.organizationId))).toEqual(
        new Set([acme.organizationId]),
      );
      clock.pass(900_000);
      expect(issued.map((token) => tokens.find(token))).toEqual(issued.map(() => null));
      expect(() =>
        tokens.issueScoped({ ...acme, kind: 'application', workspaceId: null, tokenName: 't' }, missing),
      ).toThrow(/There is no such workspace/);
    });

    it('ends the tokens of an application that is deleted meanwhile', ({ folder }) => {
      const { file, applications, tokens, acme } = openFullDisk(folder);
      const issued = Array.from({ length: 300 }, () => tokens.issueApplication(acme).token);
      file.db.pragma('max_page_count = 1000000');
      expect(applications.delete('acme')).toBe(true);
      expect(issued.filter((token) => tokens.find(token) !== null)).toEqual([]);
    });
  });

  describe('an application that asks for tokens without end', () => {
    // Proves promise 17.4
    it('is held to its rate with 429, and others are not', () => {
      const clock = manualClock();
      const state = kept(openTestState({ clock, tokensPerSecond: 3 }));
      const greedy = addApplication(state, 'greedy');
      const quiet = addApplication(state, 'quiet');
      for (let asked = 0; asked < 3; asked += 1) state.tokens.issueApplication(greedy);
      expect(() => state.tokens.issueApplication(greedy)).toThrow(
        expect.objectContaining({ status: 429, headers: { 'retry-after': '1' } }) as Error,
      );
      expect(state.tokens.issueApplication(quiet).token).not.toBe('');
      clock.pass(1000);
      expect(state.tokens.issueApplication(greedy).token).not.toBe('');
    });
  });
});

describe('service files', () => {
  let temporary: string;
  let folder: string;
  it.beforeEach(({ folder: made }) => {
    temporary = made;
    folder = join(temporary, 'deep', 'service');
  });

  const database = (): string => join(folder, 'service.db');
  const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);
  const hasCode = (code: string): Error => expect.objectContaining({ code }) as Error;

  describe('the folder', () => {
    it('and everything in it is for its owner alone, whatever the umask', () => {
      const before = process.umask(0);
      try {
        loadServiceKey(folder, undefined);
        using state = openTestState({ folder });
        addApplication(state, 'acme');
        expect(modeOf(folder)).toBe('700');
        expect(modeOf(join(temporary, 'deep'))).toBe('700');
        const names = readdirSync(folder);
        expect(names).toEqual(
          expect.arrayContaining(['service.db', 'service.db-wal', 'service.key', 'service.lock']),
        );
        expect(names.filter((name) => modeOf(join(folder, name)) !== '600')).toEqual([]);
      } finally {
        process.umask(before);
      }
    });

    it('gets the right mode back where a copy was put back that others can read', () => {
      openTestState({ folder })[Symbol.dispose]();
      chmodSync(database(), 0o644);
      openTestState({ folder })[Symbol.dispose]();
      expect(modeOf(database())).toBe('600');
    });

    it('serves one process at a time, and is free again when that has ended', () => {
      const first = openTestState({ folder });
      expect(() => openTestState({ folder })).toThrow(/Another process serves the data in .*--data/);
      addApplication(first, 'acme');
      first[Symbol.dispose]();
      first[Symbol.dispose]();
      using second = openTestState({ folder });
      expect(second.applications.list()).toHaveLength(1);
    });

    it('is free again after it could not be opened', () => {
      openTestState({ folder })[Symbol.dispose]();
      const db = new Database(database());
      db.pragma('user_version = 999');
      db.close();
      expect(() => openTestState({ folder })).toThrow(hasCode('SINK_INCOMPATIBLE'));
      const mended = new Database(database());
      mended.pragma('user_version = 1');
      mended.close();
      openTestState({ folder })[Symbol.dispose]();
    });
  });

  describe('a file that is something else is refused and stays unchanged', () => {
    const refused = (message: RegExp): void => {
      const before = readFileSync(database());
      expect(() => openTestState({ folder })).toThrow(message);
      expect(readFileSync(database()).equals(before)).toBe(true);
    };

    it('a database of another program', () => {
      mkdirSync(folder, { recursive: true });
      const db = new Database(database());
      db.exec('CREATE TABLE mine (a)');
      db.close();
      refused(/database of another program/);
    });

    // Proves promise 1.7
    it('a file of another version', () => {
      openTestState({ folder })[Symbol.dispose]();
      const db = new Database(database());
      db.pragma('user_version = 2');
      db.close();
      refused(
        /expected tables of version 1, found version 2, which another connector-sync wrote\. Nothing in it was changed\. Use the connector-sync that wrote it\. Or keep it, and name another folder with --data/,
      );
    });

    it('no database at all', () => {
      mkdirSync(folder, { recursive: true });
      writeFileSync(
        database(),
        'a text that is longer than the header of a database, which has 100 bytes. '.repeat(9),
      );
      refused(/file is not a database/);
    });

    it('a link, and a folder', () => {
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(temporary, 'elsewhere'), '');
      symlinkSync(join(temporary, 'elsewhere'), database());
      expect(() => openTestState({ folder })).toThrow(hasCode('SINK_INCOMPATIBLE'));
      expect(() => openTestState({ folder: join(temporary, 'elsewhere') })).toThrow(
        /is a file, expected a folder/,
      );
    });

    it('a damaged database', () => {
      const state = openTestState({ folder });
      addApplication(state, 'acme');
      state[Symbol.dispose]();
      const bytes = readFileSync(database());
      bytes.fill(0xff, 4096, 16_384);
      writeFileSync(database(), bytes);
      expect(() => {
        using damaged = openTestState({ folder });
        damaged.applications.list();
        damaged.workspaces.ensure('o', 'w');
      }).toThrow(hasCode('SINK_FAILED'));
    });
  });

  describe('the key', () => {
    const hex = 'ab'.repeat(32);

    it('is made once, kept beside the data, and the same ever after', () => {
      const key = loadServiceKey(folder, undefined);
      expect(key).toHaveLength(32);
      expect(loadServiceKey(folder, undefined)).toEqual(key);
      expect(loadServiceKey(folder, '')).toEqual(key);
      expect(readdirSync(folder)).toEqual(['service.key']);
      expect(loadServiceKey(temporary, undefined)).not.toEqual(key);
    });

    it('may be given in hex or base64, and then no file is read or made', () => {
      const key = Buffer.from(hex, 'hex');
      for (const text of [hex, hex.toUpperCase(), key.toString('base64'), key.toString('base64url')]) {
        expect(loadServiceKey(folder, text)).toEqual(key);
      }
      expect(() => readdirSync(folder)).toThrow('ENOENT');
    });

    it('is generated for this process where there is no folder', () => {
      expect(loadServiceKey(null, undefined)).not.toEqual(loadServiceKey(null, undefined));
      expect(loadServiceKey(null, hex)).toEqual(Buffer.from(hex, 'hex'));
    });

    // Proves promise 17.4
    it('is not replaced where credentials were sealed with the one that is missing', () => {
      const key = loadServiceKey(folder, undefined);
      {
        using state = openTestState({ folder, key });
        const { organizationId } = addApplication(state, 'acme');
        const workspace = state.workspaces.ensure(organizationId, 'default');
        state.connectors.create({
          organizationId,
          workspaceId: workspace.id,
          definition: 'email-marketing',
          name: 'News',
          credentials: { api_key: 'planted' },
          account: null,
          address: null,
        });
      }
      rmSync(join(folder, 'service.key'));
      expect(() => loadServiceKey(folder, undefined)).toThrow(
        /service\.key is missing, and service\.db beside it/,
      );
      expect(readdirSync(folder)).not.toContain('service.key');
      expect(loadServiceKey(folder, key.toString('base64'))).toEqual(key);
    });

    it('is made where there is data without anything sealed', () => {
      openTestState({ folder })[Symbol.dispose]();
      expect(loadServiceKey(folder, undefined)).toHaveLength(32);
    });

    it.each(['short', 'ab'.repeat(31), 'ab'.repeat(33), 'tell-nobody-'.repeat(4), `${'A'.repeat(43)}==`])(
      'that is none is refused without being repeated: %j',
      (text) => {
        expect(() => loadServiceKey(folder, text)).toThrow(
          /^CONNECTOR_SYNC_SERVICE_KEY: expected a key of 32 bytes in base64 or hex, as "openssl rand -base64 32" makes one, got something else\.$/,
        );
      },
    );

    it('in a file that others may read, in a link, in a folder or in no key at all is refused', () => {
      const file = join(folder, 'service.key');
      loadServiceKey(folder, undefined);
      for (const mode of [0o640, 0o604, 0o620]) {
        chmodSync(file, mode);
        expect(() => loadServiceKey(folder, undefined)).toThrow(/Others may read or change the key/);
      }
      chmodSync(file, 0o600);
      writeFileSync(file, 'tell-nobody');
      expect(() => loadServiceKey(folder, undefined)).toThrow(/service\.key: expected a key of 32 bytes/);
      writeFileSync(file, '');
      expect(() => loadServiceKey(folder, undefined)).toThrow(/service\.key: expected a key of 32 bytes/);

      const linked = join(temporary, 'linked');
      mkdirSync(linked);
      symlinkSync(file, join(linked, 'service.key'));
      expect(() => loadServiceKey(linked, undefined)).toThrow(/is a link/);
      const nested = join(temporary, 'nested');
      mkdirSync(join(nested, 'service.key'), { recursive: true });
      expect(() => loadServiceKey(nested, undefined)).toThrow(/expected to be a file with a key/);
    });
  });
});
