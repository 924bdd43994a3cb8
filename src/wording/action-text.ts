import type { NotedAction } from '../sinks/actions.ts';

/** What a reader has to know of an action besides who did it, on one line. */
export function actionDetail({ detail }: NotedAction): string {
  return Object.entries(detail)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ');
}
