import { html, type SafeHtml } from '@remix-run/html-template';
import type { Health } from '../core/health.ts';
import type { RunSummary } from '../sinks/ledger-reader.ts';

/** A word of a state, with its colour and shape. */
export type StateLook = 'ok' | 'run' | 'idle' | 'idle paused' | 'warn late' | 'warn part' | 'bad';

export function state(look: StateLook, word: string): SafeHtml {
  return html`<span class="state ${look}">${word}</span>`;
}

const healthLooks: Readonly<Record<Health, readonly [StateLook, string]>> = {
  failed: ['bad', 'Failed'],
  late: ['warn late', 'Late'],
  incomplete: ['warn part', 'Incomplete'],
  paused: ['idle paused', 'Paused'],
  running: ['run', 'Running'],
  new: ['idle', 'New'],
  ok: ['ok', 'OK'],
};

export function healthState(health: Health): SafeHtml {
  return state(...healthLooks[health]);
}

/** Word of a health as pages write it. */
export function healthTitle(health: Health): string {
  return healthLooks[health][1];
}

const runLooks: Readonly<Record<RunSummary['state'], readonly [StateLook, string]>> = {
  // Not OK: that is the word of a connector, which may be incomplete after such a run.
  ok: ['ok', 'Done'],
  partial: ['warn part', 'Incomplete'],
  degraded: ['warn part', 'Incomplete'],
  interrupted: ['warn part', 'Interrupted'],
  failed: ['bad', 'Failed'],
  running: ['run', 'Running'],
};

/** How a run ended, or that it is in progress. */
export function runState(of: RunSummary['state']): SafeHtml {
  return state(...runLooks[of]);
}

/** Look and word of how a run ended, for bars and summaries. */
export function runLook(of: RunSummary['state']): readonly [StateLook, string] {
  return runLooks[of];
}
