import { answeredWithin, type Clock } from '../core/clock.ts';
import type { JobLog } from '../jobs/worker-context.ts';

/** What readiness is asked of; see `MonitorOptions.health`. */
export interface HealthSources {
  readonly worker: () => Promise<{ readonly isReady: boolean; readonly problems: readonly string[] }>;
  readonly sinks: () => Promise<readonly { readonly name: string; readonly problem: string | null }[]>;
}

export interface Readiness {
  readonly isReady: boolean;
  /** Public, so it shows only the names of sinks. */
  readonly problems: readonly string[];
}

/**
 * Says whether jobs can be taken now. Never rejects, and answers within `withinMs` whatever hangs. A change is logged
 * once, with what a sink's problem is in full.
 */
export function openReadiness(
  health: HealthSources,
  options: { readonly withinMs: number; readonly clock: Clock; readonly log: JobLog },
): () => Promise<Readiness> {
  const { log, clock, withinMs } = options;
  let pending: Promise<Readiness> | null = null;
  let wasReady = true;

  const ask = async (): Promise<Readiness> => {
    const within = <Answer>(answer: Promise<Answer>, late: Answer): Promise<Answer> =>
      answeredWithin(answer, late, withinMs, clock);
    const [ofWorker, ofSinks] = await Promise.all([
      within(workerProblems(health.worker), [
        `the worker's state is unknown: no answer within ${withinMs} ms; is Redis running?`,
      ]),
      within(sinkProblems(health.sinks), [unknownState(`no answer within ${withinMs} ms`)]),
    ]);
    const problems = [...ofWorker, ...ofSinks.map(({ shown }) => shown)];
    const isReady = problems.length === 0;
    if (isReady !== wasReady) {
      if (isReady) log.info({}, 'ready again');
      else log.warn({ problems: [...ofWorker, ...ofSinks.map(({ logged }) => logged)] }, 'not ready');
    }
    wasReady = isReady;
    return { isReady, problems };
  };

  return () => {
    // Probes at the same time share one question.
    pending ??= ask().finally(() => (pending = null));
    return pending;
  };
}

async function workerProblems(worker: HealthSources['worker']): Promise<readonly string[]> {
  try {
    const { isReady, problems } = await worker();
    if (problems.length > 0) return problems;
    return isReady ? [] : ['the worker takes no jobs'];
  } catch {
    return ["the worker's state is unknown; is Redis running?"];
  }
}

async function sinkProblems(sinks: HealthSources['sinks']) {
  try {
    return (await sinks())
      .filter(({ problem }) => problem !== null)
      .map(({ name, problem }) => ({
        shown: `sink ${name} cannot be used; the log says why`,
        logged: `sink ${name}: ${problem}`,
      }));
  } catch (error) {
    return [unknownState(String(error))];
  }
}

function unknownState(why: string) {
  const shown = 'the state of the sinks is unknown; the log says why';
  return { shown, logged: `${shown}: ${why}` };
}
