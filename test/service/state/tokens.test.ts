import Database from 'better-sqlite3';
import { join } from 'node:path';
import { afterEach, describe, expect } from 'vitest';
import { it } from '../../support/it.ts';
import { createApplications, createTokens } from '../../../src/service/state/applications.ts';
import { openStateFile } from '../../../src/service/state/open-state-file.ts';
import type { ServiceState } from '../../../src/service/state/open-service-state.ts';
import {
  addApplication,
  manualClock,
  openTestState,
  principalOf,
} from '../../support/service/open-test-state.ts';

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
      organizationName: 'acme',
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

  it('outlive a restart on the same folder', ({ folder }) => {
    const clock = manualClock();
    const first = openTestState({ folder, clock });
    const { token } = first.tokens.issueApplication(addApplication(first, 'acme'));
    first[Symbol.dispose]();
    using second = openTestState({ folder, clock });
    expect(second.tokens.find(token)).toMatchObject({ clientId: 'client-of-acme' });
  });
});

describe('scoped tokens', () => {
  it('stand for one workspace, live longer, and end with it', () => {
    const clock = manualClock();
    const state = kept(openTestState({ clock }));
    const { acme, workspaceId, token } = scoped(state);
    expect(state.tokens.find(token)).toMatchObject({ kind: 'scoped', workspaceId, clientId: acme.clientId });
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
    const file = openStateFile(folder, clock);
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
