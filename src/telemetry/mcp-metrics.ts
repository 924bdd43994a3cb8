import { collectDefaultMetrics, Registry } from 'prom-client';
import { metricsIn } from './series.ts';

/** How a call of an agent ended. */
interface EndedCall {
  /** Of a closed set. */
  readonly tool: string;
  readonly result: string;
  readonly ms: number;
  readonly chars: number;
}

/** What `mcp --http` counts, for Prometheus. */
export function openMcpMetrics() {
  const registry = new Registry();
  const { counter, histogram } = metricsIn(registry);
  const calls = counter(
    'mcp_calls_total',
    'Calls of agents, by tool and by how they ended: ok, refused, failed, cancelled. Only of mcp --http, as all that begin with mcp.',
    ['tool', 'result'],
  );
  const seconds = histogram(
    'mcp_call_seconds',
    [0.01, 0.05, 0.2, 1, 5, 20],
    'How long calls took, with their wait.',
  );
  const characters = counter('mcp_answer_characters_total', 'Characters that answers had, by tool.', [
    'tool',
  ]);
  collectDefaultMetrics({ register: registry });
  return {
    onCall: ({ tool, result, ms, chars }: EndedCall): void => {
      calls.inc({ tool, result });
      seconds.observe(ms / 1000);
      characters.inc({ tool }, chars);
    },
    text: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  };
}
