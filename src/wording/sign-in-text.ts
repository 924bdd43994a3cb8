import type { SignInState } from '../app/connector-states.ts';
import { printable, toTheMinute } from '../telemetry/format.ts';

/** How a connector stands that a person signs in, and what to do. */
export function signInText(signIn: SignInState, connector: string, program: string): string {
  const { state, since, renewedAt, renewalBegunAt, account, accessUntil, endsAt, why } = signIn;
  const login = `run "${program} login ${connector}"`;
  const who = account === null ? '' : ` as ${printable(account)}`;
  switch (state) {
    case 'signed-out':
      return `not signed in: ${login}`;
    case 'unreadable':
      return `whether it is signed in cannot be read: ${printable(why ?? '')}`;
    case 'ended':
      return `the sign-in${who} has ended (${printable(why ?? '')}): ${login}`;
    case 'signed-in': {
      const facts = [
        `signed in since ${toTheMinute(since ?? '')}${who}`,
        ...(renewedAt === null ? [] : [`renewed ${toTheMinute(renewedAt)}`]),
        ...(endsAt !== null
          ? [`good until ${toTheMinute(endsAt)}`]
          : accessUntil === null
            ? []
            : [`access until ${toTheMinute(accessUntil)}, then it is renewed`]),
        ...(renewalBegunAt === null
          ? []
          : [`a renewal began at ${toTheMinute(renewalBegunAt)} and has not ended`]),
      ];
      return facts.join(', ');
    }
  }
}
