import { SyncError } from '../../core/errors.ts';
import { orAborted } from '../../http/or-aborted.ts';
import { knownOrMade } from '../../core/known-or-made.ts';

export type BrokenAnswers = ReturnType<typeof watchBrokenAnswers>;
type Repeating = ReturnType<typeof startRepeating>;

/** One for all parameters of the same entity and action, which `label` names. */
export function openBrokenAnswers(): (label: string) => BrokenAnswers {
  const byLabel = new Map<string, BrokenAnswers>();
  return (label) => knownOrMade(byLabel, label, watchBrokenAnswers);
}

/**
 * What calls of one kind (`list list_members`) tell each other about answers that are no answer: HTML, or JSON of
 * another shape. Such a fault is mostly that of the whole entity, so one call repeats for all of them while the others
 * wait for its outcome. Once it has used up its attempts, one of those that waited has another attempt, since it may be
 * the first alone that is broken. From then on each further call has one, until any of them gets an answer.
 */
function watchBrokenAnswers() {
  let repeating: Repeating | null = null;
  let isBroken = false;
  /** Another call than the one that used up its attempts was answered no better. */
  let isConfirmed = false;
  const settle = (isBrokenNow: boolean): void => {
    isBroken = isBrokenNow;
    isConfirmed &&= isBrokenNow;
    repeating?.settle();
    repeating = null;
  };
  return {
    /** After a broken answer to `call`: whether it may be sent again. Rejects with the signal's reason. */
    async mayRepeat(call: object, signal: AbortSignal): Promise<boolean> {
      if (repeating === null && !isBroken) repeating = startRepeating(call);
      let hasWaited = false;
      for (;;) {
        // Checked and, below, taken over without a wait in between: only one of those that waited does so.
        const ahead: Repeating | null = repeating;
        if (ahead === null || ahead.call === call) break;
        await orAborted(ahead.outcome, signal);
        hasWaited = true;
      }
      if (!isBroken) return true;
      const isSecond = hasWaited && !isConfirmed;
      isConfirmed = true;
      if (isSecond) repeating = startRepeating(call);
      return isSecond;
    },
    /** Once for each call, with the error that its caller gets; null: it was answered. */
    ended(call: object, error: unknown): void {
      // Whichever call it was: the entity does answer, and what is broken is something smaller.
      if (error === null) settle(false);
      else if (repeating?.call === call) settle(isBrokenAnswer(error));
    },
  };
}

/** The service answered, with success, and not with what the API promises: no overload and no lost connection. */
export function isBrokenAnswer(error: unknown): boolean {
  if (!(error instanceof SyncError) || error.code !== 'BODY_INVALID') return false;
  const { recovery, context } = error;
  return recovery === 'retry' || context['reason'] === 'noRecords' || context['reason'] === 'brokenRecords';
}

function startRepeating(call: object) {
  let settle = (): void => undefined;
  const outcome = new Promise<void>((resolve) => (settle = resolve));
  return { call, outcome, settle };
}
