import { hash } from 'node:crypto';
import * as acts from '../app/acts.ts';
import { editActs, type EditWorld } from '../app/config-edits.ts';
import { findRun } from '../app/find-run.ts';
import type { WatchedSinks } from '../app/watch-sinks.ts';
import { usage } from '../core/errors.ts';
import { connectorNamed, targetNamed } from '../settings/choices.ts';
import type { ActName } from './layout.ts';
import { type ListedConnector, matchingConnectors, type OverviewQuery } from './overview-page.ts';

/** The subject of an act as its address names it; parts that it does not name are empty. */
export interface ActQuery extends Pick<OverviewQuery, 'q' | 'state'> {
  /** Empty: all that `q` and `state` match, as on the overview. */
  readonly connector: string;
  readonly run: string;
  readonly target: string;
  /** The chosen schedule; empty: none yet. */
  readonly every: string;
  /** The page that it is asked on, from the root; empty: that of its subject. */
  readonly back: string;
}

export interface PageActWorld extends EditWorld {
  readonly watched: WatchedSinks;
}

/** A form that carries another one was made before something changed: it does nothing. */
export function fingerprint({ title, of }: acts.PreparedAct): string {
  return hash('sha256', JSON.stringify([title, of]), 'base64url');
}

/** Prepares an act of a person on one connector, on all that the overview shows, on a run or a target. */
export async function prepareAct(
  name: ActName,
  query: ActQuery,
  world: PageActWorld,
): Promise<acts.PreparedAct> {
  const { settings } = world;
  switch (name) {
    case 'cancel':
    case 'undo':
      return await acts.runActs[name](await findRun(settings, query.run, world.program), world);
    case 'publish-now':
      return await acts.publishNow(targetNamed(settings, query.target), world);
    case 'run-now':
    case 'pause':
    case 'resume': {
      const { connectors, rest } = await choose(query, world, choices[name]);
      const act = await acts.connectorActs[name](connectors, world);
      return { ...act, says: [...act.says, ...rest] };
    }
    case 'schedule':
      return editActs.schedule(connectorNamed(settings, query.connector), world, query.every);
    case 'remove':
      return await editActs.remove(connectorNamed(settings, query.connector), world);
    case 'allow-deletes':
    case 'read-all':
    case 'check':
    case 'mark-known':
      return await acts.oneConnectorActs[name](connectorNamed(settings, query.connector), world);
  }
}

interface Choice {
  readonly isFor: (one: ListedConnector) => boolean;
  /** Text about the others, and the text where there are only others. */
  readonly others: string;
  readonly nothing: string;
}

const isPaused = ({ overview }: ListedConnector): boolean => (overview?.paused ?? null) !== null;
const isActive = (one: ListedConnector): boolean => !isPaused(one);

const choices: Readonly<Record<keyof typeof acts.connectorActs, Choice>> = {
  'run-now': { isFor: isActive, others: 'paused', nothing: 'Nothing to run, resume first' },
  pause: { isFor: isActive, others: 'paused already', nothing: 'Nothing to pause' },
  resume: { isFor: isPaused, others: 'not paused', nothing: 'Nothing to resume' },
};

/** The connectors to act on; `rest` describes the others. Throws USAGE if there are none. */
async function choose(
  { connector, ...filter }: ActQuery,
  { settings, watched, clock }: PageActWorld,
  { isFor, others, nothing }: Choice,
) {
  const isOne = connector !== '';
  const asked = isOne ? [connectorNamed(settings, connector)] : [...settings.connectors.values()];
  const query = isOne ? { q: '', state: null } : filter;
  const { matching, unreadable } = await matchingConnectors(asked, watched, query, clock.now());
  if (matching.length === 0) {
    throw usage(isOne ? `Its sink cannot be read: ${unreadable[0]?.problem ?? ''}` : 'No connector matches.');
  }
  const connectors = matching.filter(isFor).map((one) => one.connector);
  const left = matching.filter((one) => !isFor(one)).map((one) => one.connector);
  const rest =
    left.length === 0 ? [] : [`${acts.listOf(left)} ${left.length === 1 ? 'is' : 'are'} ${others}.`];
  if (connectors.length === 0) throw usage(`${nothing}: ${rest.join(' ')}`);
  return { connectors, rest };
}
