import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
  rmSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect } from 'vitest';
import { it } from '../../support/it.ts';
import { takeLock } from '../../../src/sql/sqlite/lock.ts';
import { loadServiceKey } from '../../../src/service/state/service-key.ts';
import { addApplication, openTestState } from '../../support/service/open-test-state.ts';

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

  it('is not changed by a command while a running service has data of another version in it', () => {
    mkdirSync(folder, { recursive: true });
    const service = takeLock(join(folder, 'service.lock'));
    expect(() => openTestState({ folder, isShared: true })).toThrow(
      /service that runs on .* is of another version of connector-sync\. Stop it/,
    );
    expect(readFileSync(database())).toHaveLength(0);
    service?.release();
    openTestState({ folder, isShared: true })[Symbol.dispose]();
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
    refused(/no SQLite database/);
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
        replicationConfig: {},
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
