"""What screens show, as frozen values made from answers: no terminal, no network, no clock."""
