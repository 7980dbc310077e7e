import type { Project } from './projects.ts';

/** One condition of a licence: what the report says about it, what comes after it, and what a client asks. */
export interface Condition {
  /** Two wordings: reports are not filled-in forms. */
  says(project: Project, n: number): readonly [string, string];
  context: string;
  asks(project: Project): string;
}

/** `n` is a whole number from 0 to 49 that belongs to this project and condition. */
export const CONDITIONS: readonly Condition[] = [
  {
    says: (p, n) => [
      `A licença de operação do empreendimento ${p.name} é válida por ${4 + (n % 7)} anos a partir da publicação.`,
      `A vigência da licença de operação do empreendimento ${p.name} é de ${4 + (n % 7)} anos, contados da publicação, e por esse tempo ela é válida.`,
    ],
    context: 'A contagem não se interrompe durante paralisações voluntárias da atividade.',
    asks: (p) => `Por quantos anos é válida a licença de operação do empreendimento ${p.name}?`,
  },
  {
    says: (_, n) => [
      `O pedido de renovação deve ser protocolado com antecedência mínima de ${90 + n * 3} dias do vencimento.`,
      `Requer-se a renovação da licença por pedido protocolado com pelo menos ${90 + n * 3} dias de antecedência.`,
    ],
    context: 'O protocolo tardio não prorroga automaticamente os efeitos do documento.',
    asks: (p) => `Com que antecedência deve ser protocolado o pedido de renovação da licença de ${p.name}?`,
  },
  {
    says: (_, n) => [
      `O nível de ruído no limite da propriedade não pode exceder ${50 + (n % 15)} decibéis no período noturno.`,
      `No período noturno, o nível de ruído junto às divisas não pode exceder ${50 + (n % 15)} decibéis.`,
    ],
    context: 'As medições seguem o método da norma técnica vigente e são feitas por laboratório habilitado.',
    asks: (p) => `Que nível de ruído ${p.name} não pode exceder no período noturno?`,
  },
  {
    says: (p, n) => [
      `A vazão máxima captada no ${p.river} é de ${20 + n * 4} metros cúbicos por hora, conforme a outorga.`,
      `Conforme a outorga, a vazão captada no ${p.river} é de no máximo ${20 + n * 4} metros cúbicos por hora.`,
    ],
    context: 'O hidrômetro deve permanecer lacrado e acessível à fiscalização.',
    asks: (p) => `Que vazão captada no ${p.river} a outorga de ${p.name} admite?`,
  },
  {
    says: (p, n) => [
      `O efluente tratado lançado no ${p.river} deve apresentar demanda bioquímica de oxigênio de até ${30 + n} miligramas por litro.`,
      `Para lançamento no ${p.river}, a demanda bioquímica de oxigênio do efluente tratado tem o limite de ${30 + n} miligramas por litro.`,
    ],
    context: 'Amostras compostas são colhidas na saída da estação de tratamento.',
    asks: (p) => `Qual é o limite de demanda bioquímica de oxigênio do efluente de ${p.name}?`,
  },
  {
    says: (_, n) => [
      `A emissão de material particulado na chaminé principal fica limitada a ${25 + n * 2} miligramas por metro cúbico.`,
      `Na chaminé principal, o limite de emissão de material particulado é de ${25 + n * 2} miligramas por metro cúbico.`,
    ],
    context: 'O equipamento de controle não pode ser desligado enquanto houver queima.',
    asks: (p) => `Qual é o limite de emissão de material particulado na chaminé principal de ${p.name}?`,
  },
  {
    says: (p, n) => [
      `O relatório de monitoramento deve ser entregue ao órgão ${p.agency} a cada ${3 + (n % 10)} meses.`,
      `A cada ${3 + (n % 10)} meses, o órgão ${p.agency} recebe do empreendedor o relatório de monitoramento, entregue por via eletrônica.`,
    ],
    context: 'Cada relatório traz as séries históricas e a assinatura do responsável técnico.',
    asks: (p) => `A cada quantos meses o relatório de monitoramento de ${p.name} é entregue ao órgão?`,
  },
  {
    says: (_, n) => [
      `A compensação florestal exige o plantio de ${(n + 5) * 250} mudas de espécies nativas.`,
      `A título de compensação florestal, a licença exige que sejam plantadas ${(n + 5) * 250} mudas nativas.`,
    ],
    context: 'A sobrevivência das mudas é verificada ao fim do segundo período chuvoso.',
    asks: (p) => `Quantas mudas nativas a compensação florestal exige de ${p.name}?`,
  },
  {
    says: (_, n) => [
      `A faixa de preservação permanente ao longo das margens deve ser mantida com ${30 + (n % 12) * 5} metros de largura.`,
      `Nas margens, uma faixa de preservação permanente com largura de ${30 + (n % 12) * 5} metros deve ficar livre de construções.`,
    ],
    context: 'É vedado o trânsito de máquinas nessa área, salvo em emergência comprovada.',
    asks: (p) => `Qual largura deve ter a faixa de preservação permanente nas margens em ${p.name}?`,
  },
  {
    says: (_, n) => [
      `Resíduos perigosos podem permanecer armazenados no local por no máximo ${15 + n} dias.`,
      `Por até ${15 + n} dias podem ficar armazenados no pátio coberto os resíduos perigosos.`,
    ],
    context: 'Os recipientes são identificados e ficam sobre piso impermeável com bacia de contenção.',
    asks: (p) => `Por quantos dias ${p.name} pode manter resíduos perigosos armazenados?`,
  },
  {
    says: (_, n) => [
      `A rede de poços de monitoramento do lençol freático é composta de ${4 + (n % 17)} poços.`,
      `O lençol freático é acompanhado por ${4 + (n % 17)} poços de monitoramento, a montante e a jusante.`,
    ],
    context: 'A profundidade de cada um consta do anexo hidrogeológico.',
    asks: (p) => `De quantos poços de monitoramento do lençol freático dispõe ${p.name}?`,
  },
  {
    says: (p, n) => [
      `Qualquer acidente ambiental deve ser comunicado ao órgão ${p.agency} em até ${2 + (n % 22)} horas.`,
      `O empreendedor tem ${2 + (n % 22)} horas para comunicar ao órgão ${p.agency} qualquer acidente ambiental.`,
    ],
    context: 'A comunicação inicial pode ser feita por telefone e é confirmada por escrito.',
    asks: (p) => `Em quantas horas ${p.name} deve comunicar um acidente ambiental?`,
  },
  {
    says: (_, n) => [
      `O plano de ação de emergência deve ser revisto a cada ${6 + (n % 19)} meses, com simulado prático.`,
      `Exige-se rever o plano de ação de emergência a cada ${6 + (n % 19)} meses e ensaiá-lo em campo.`,
    ],
    context: 'A comunidade vizinha é convidada a acompanhar os exercícios.',
    asks: (p) => `A cada quantos meses ${p.name} deve rever o plano de ação de emergência?`,
  },
  {
    says: (_, n) => [
      `O transporte de cargas por via pública é permitido somente até as ${17 + (n % 6)} horas.`,
      `Depois das ${17 + (n % 6)} horas é proibido transportar cargas por via pública.`,
    ],
    context: 'Veículos em espera não podem estacionar diante de escolas ou unidades de saúde.',
    asks: (p) => `Até que horas ${p.name} pode transportar cargas por via pública?`,
  },
  {
    says: (_, n) => [
      `A área total autorizada para supressão de vegetação é de ${2 + n},5 hectares.`,
      `Foi autorizada a supressão de ${2 + n},5 hectares de vegetação, e nenhuma área além dessa.`,
    ],
    context: 'O material lenhoso tem destinação registrada em sistema oficial.',
    asks: (p) => `Qual área de supressão de vegetação foi autorizada para ${p.name}?`,
  },
  {
    says: (_, n) => [
      `O programa de resgate de fauna deve contar com equipe de ${3 + (n % 9)} biólogos em campo.`,
      `A equipe de resgate de fauna tem ${3 + (n % 9)} biólogos, presentes durante toda a supressão.`,
    ],
    context: 'Animais feridos são encaminhados a centro de triagem conveniado.',
    asks: (p) => `Quantos biólogos deve ter a equipe de resgate de fauna de ${p.name}?`,
  },
  {
    says: (_, n) => [
      `O programa de educação ambiental deve alcançar pelo menos ${(n + 4) * 30} moradores por ano.`,
      `Pelo menos ${(n + 4) * 30} moradores por ano devem ser alcançados por ações de educação ambiental, que formam um programa permanente.`,
    ],
    context: 'As listas de presença ficam arquivadas para consulta.',
    asks: (p) => `Quantos moradores por ano o programa de educação ambiental de ${p.name} deve alcançar?`,
  },
  {
    says: (_, n) => [
      `A umectação das vias internas deve ocorrer ${2 + (n % 6)} vezes ao dia na estação seca.`,
      `Na estação seca, exige-se umectar as vias internas ${2 + (n % 6)} vezes ao dia.`,
    ],
    context: 'A água de reúso é preferida sempre que disponível.',
    asks: (p) => `Quantas vezes ao dia ${p.name} deve umectar as vias internas na estação seca?`,
  },
  {
    says: (_, n) => [
      `A multa diária pelo descumprimento das condicionantes foi fixada em ${(n + 2) * 1500} reais.`,
      `Quem descumprir as condicionantes paga multa diária fixada em ${(n + 2) * 1500} reais.`,
    ],
    context: 'O pagamento não dispensa a reparação do dano.',
    asks: (p) => `Qual é a multa diária fixada para ${p.name} por descumprir as condicionantes?`,
  },
  {
    says: (_, n) => [
      `A garantia financeira para a recuperação da área degradada soma ${(n + 10) * 40} mil reais.`,
      `Para recuperar a área degradada, o empreendedor mantém garantia financeira de ${(n + 10) * 40} mil reais.`,
    ],
    context: 'O seguro ou a fiança é renovado antes de cada vencimento.',
    asks: (p) => `Quanto soma a garantia financeira de ${p.name} para recuperar a área degradada?`,
  },
];
